package seqferry.nextflow;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.FileSystem;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * An absolute path {@code /bucket/key}, or a relative one. Keys are taken as they are: nothing is decoded.
 *
 * <p>A path that comes from a listing carries what the listing said of it for a while, so that walking a folder asks for
 * nothing twice.
 */
final class SeqferryPath implements Path {

    static final String PREFIX = "s3://";

    /** How long what a listing said is believed: long enough to stage what a glob has found. */
    private static final long KNOWN_NANOS = 60_000_000_000L;

    private final SeqferryFileSystem fileSystem;
    /** Null for a relative path. */
    private final String bucket;
    private final List<String> names;
    private volatile Attributes known;
    private volatile long knownSince;

    SeqferryPath(SeqferryFileSystem fileSystem, String bucket, List<String> names) {
        this.fileSystem = fileSystem;
        this.bucket = bucket;
        this.names = List.copyOf(names);
    }

    /** The parts of a path between its slashes; empty ones count as no part. */
    static List<String> split(String text) {
        return Arrays.stream(text.split("/")).filter(name -> !name.isEmpty()).toList();
    }

    String uri() {
        return bucket == null ? String.join("/", names) : PREFIX + bucket + "/" + String.join("/", names);
    }

    Attributes known() {
        Attributes found = known;
        return found != null && System.nanoTime() - knownSince < KNOWN_NANOS ? found : null;
    }

    SeqferryPath learn(Attributes attributes) {
        knownSince = System.nanoTime();
        known = attributes;
        return this;
    }

    void forget() {
        known = null;
    }

    private SeqferryPath with(String bucket, List<String> names) {
        return new SeqferryPath(fileSystem, bucket, names);
    }

    @Override
    public FileSystem getFileSystem() {
        return fileSystem;
    }

    @Override
    public boolean isAbsolute() {
        return bucket != null;
    }

    @Override
    public Path getRoot() {
        return bucket == null ? null : with(bucket, List.of());
    }

    @Override
    public Path getFileName() {
        return names.isEmpty() ? null : with(null, names.subList(names.size() - 1, names.size()));
    }

    @Override
    public Path getParent() {
        if (names.isEmpty() || (bucket == null && names.size() == 1)) {
            return null;
        }
        return with(bucket, names.subList(0, names.size() - 1));
    }

    @Override
    public int getNameCount() {
        return names.size();
    }

    @Override
    public Path getName(int index) {
        return subpath(index, index + 1);
    }

    @Override
    public Path subpath(int begin, int end) {
        if (begin < 0 || end > names.size() || begin >= end) {
            throw new IllegalArgumentException("No names " + begin + " to " + end + " in " + this);
        }
        return with(null, names.subList(begin, end));
    }

    @Override
    public boolean startsWith(Path other) {
        return other instanceof SeqferryPath that
                && Objects.equals(bucket, that.bucket)
                && that.names.size() <= names.size()
                && names.subList(0, that.names.size()).equals(that.names);
    }

    @Override
    public boolean endsWith(Path other) {
        if (!(other instanceof SeqferryPath that) || that.names.size() > names.size()) {
            return false;
        }
        if (that.bucket != null) {
            return equals(that);
        }
        return names.subList(names.size() - that.names.size(), names.size()).equals(that.names);
    }

    @Override
    public Path normalize() {
        List<String> kept = new ArrayList<>();
        for (String name : names) {
            boolean up = name.equals("..");
            if (up && !kept.isEmpty() && !kept.get(kept.size() - 1).equals("..")) {
                kept.remove(kept.size() - 1);
            } else if (!name.equals(".") && !(up && bucket != null)) {
                kept.add(name);
            }
        }
        return with(bucket, kept);
    }

    /** A relative path of any file system will do: Nextflow resolves names of task outputs against target folders. */
    @Override
    public Path resolve(Path other) {
        if (other.isAbsolute()) {
            return other;
        }
        return resolve(other.toString());
    }

    @Override
    public Path resolve(String other) {
        if (other.startsWith("/")) {
            return fileSystem.getPath(other);
        }
        List<String> joined = new ArrayList<>(names);
        joined.addAll(split(other));
        return with(bucket, joined);
    }

    @Override
    public Path relativize(Path other) {
        if (!(other instanceof SeqferryPath that)) {
            throw new ProviderMismatchException();
        }
        if (!Objects.equals(bucket, that.bucket)) {
            throw new IllegalArgumentException(that + " is not in the bucket of " + this);
        }
        int same = 0;
        while (same < Math.min(names.size(), that.names.size()) && names.get(same).equals(that.names.get(same))) {
            same++;
        }
        List<String> steps = new ArrayList<>();
        for (int i = same; i < names.size(); i++) {
            steps.add("..");
        }
        steps.addAll(that.names.subList(same, that.names.size()));
        return with(null, steps);
    }

    @Override
    public URI toUri() {
        try {
            return new URI("s3", bucket, "/" + String.join("/", names), null, null);
        } catch (URISyntaxException why) {
            throw new IllegalStateException("Not an address: " + this, why);
        }
    }

    @Override
    public Path toAbsolutePath() {
        if (bucket == null) {
            throw new IllegalStateException("A relative path names no bucket: " + this);
        }
        return this;
    }

    @Override
    public Path toRealPath(LinkOption... options) throws IOException {
        return toAbsolutePath();
    }

    @Override
    public WatchKey register(WatchService watcher, WatchEvent.Kind<?>[] events, WatchEvent.Modifier... modifiers) {
        throw new UnsupportedOperationException("Nothing tells of changes in S3");
    }

    @Override
    public int compareTo(Path other) {
        return toString().compareTo(other.toString());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SeqferryPath that && Objects.equals(bucket, that.bucket) && names.equals(that.names);
    }

    @Override
    public int hashCode() {
        return Objects.hash(bucket, names);
    }

    @Override
    public String toString() {
        return bucket == null ? String.join("/", names) : "/" + bucket + "/" + String.join("/", names);
    }
}
