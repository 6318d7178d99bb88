package seqferry.nextflow;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.WatchService;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.spi.FileSystemProvider;
import java.util.List;
import java.util.Set;

/** All buckets, reached through one helper process that is started when the first request needs it. */
final class SeqferryFileSystem extends FileSystem {

    private static Helper helper;

    private final SeqferryFileSystemProvider provider;

    SeqferryFileSystem(SeqferryFileSystemProvider provider) {
        this.provider = provider;
    }

    /** The helper; another one when the last has ended. */
    static synchronized Helper helper() throws IOException {
        if (helper == null || helper.hasEnded()) {
            helper = Helper.start(Settings.ofNextflow());
        }
        return helper;
    }

    static synchronized void end() {
        if (helper != null) {
            helper.close();
            helper = null;
        }
    }

    /** Of {@code s3://bucket/key}, or of {@code s3:///bucket/key} as Nextflow writes a path into its cache. */
    SeqferryPath parse(String uri) {
        return (SeqferryPath) getPath("/" + uri.substring(SeqferryPath.PREFIX.length()));
    }

    @Override
    public Path getPath(String first, String... more) {
        String text = more.length == 0 ? first : first + "/" + String.join("/", more);
        List<String> names = SeqferryPath.split(text);
        if (!text.startsWith("/")) {
            return new SeqferryPath(this, null, names);
        }
        if (names.isEmpty()) {
            throw new IllegalArgumentException("An address names a bucket: s3://bucket/key");
        }
        return new SeqferryPath(this, names.get(0), names.subList(1, names.size()));
    }

    @Override
    public PathMatcher getPathMatcher(String syntaxAndPattern) {
        PathMatcher ofNames = FileSystems.getDefault().getPathMatcher(syntaxAndPattern);
        return path -> ofNames.matches(Path.of(path.toString()));
    }

    @Override
    public FileSystemProvider provider() {
        return provider;
    }

    @Override
    public void close() {
        end();
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public boolean isReadOnly() {
        return false;
    }

    @Override
    public String getSeparator() {
        return "/";
    }

    @Override
    public Iterable<Path> getRootDirectories() {
        return List.of();
    }

    @Override
    public Iterable<FileStore> getFileStores() {
        return List.of();
    }

    @Override
    public Set<String> supportedFileAttributeViews() {
        return Set.of("basic");
    }

    @Override
    public UserPrincipalLookupService getUserPrincipalLookupService() {
        throw new UnsupportedOperationException("S3 has no users of a file system");
    }

    @Override
    public WatchService newWatchService() {
        throw new UnsupportedOperationException("Nothing tells of changes in S3");
    }
}
