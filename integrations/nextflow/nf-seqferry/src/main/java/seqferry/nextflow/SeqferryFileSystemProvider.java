package seqferry.nextflow;

import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessMode;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import nextflow.file.FileSystemTransferAware;

/**
 * S3 as a file system whose bytes and requests go through the helper. Holds no logic of transfers.
 *
 * <p>Folders are prefixes: they are there when something is below them, and making one does nothing. A stream passes
 * through a file in the folder for temporary files: what is read is whole and verified, what is written is uploaded when
 * the stream is closed.
 */
public final class SeqferryFileSystemProvider extends FileSystemProvider implements FileSystemTransferAware {

    private final SeqferryFileSystem fileSystem = new SeqferryFileSystem(this);

    SeqferryFileSystem fileSystem() {
        return fileSystem;
    }

    @Override
    public String getScheme() {
        return "s3";
    }

    @Override
    public FileSystem newFileSystem(URI uri, Map<String, ?> environment) {
        return fileSystem;
    }

    @Override
    public FileSystem getFileSystem(URI uri) {
        return fileSystem;
    }

    @Override
    public Path getPath(URI uri) {
        String bucket = uri.getAuthority() == null ? "" : "/" + uri.getAuthority();
        return fileSystem.getPath(bucket + uri.getPath());
    }

    // --- whole transfers ---------------------------------------------------------------------------------------------

    @Override
    public boolean canUpload(Path source, Path target) {
        return isLocal(source) && target instanceof SeqferryPath;
    }

    @Override
    public boolean canDownload(Path source, Path target) {
        return source instanceof SeqferryPath && isLocal(target);
    }

    @Override
    public void download(Path source, Path target, CopyOption... options) throws IOException {
        if (!isReplacing(options) && Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        SeqferryPath from = ours(source);
        Map<String, Object> facts = facts(from.uri(), target.toAbsolutePath().toString(), true);
        Attributes found = attributes(from);
        facts.put("folder", found.folder());
        if (!found.folder()) {
            // Not looked up once more. The read is pinned to it.
            facts.put("size", found.size());
            facts.put("etag", found.etag());
        }
        SeqferryFileSystem.helper().call("copy", facts, null);
    }

    @Override
    public void upload(Path source, Path target, CopyOption... options) throws IOException {
        SeqferryPath to = ours(target);
        to.forget();
        String from = source.toAbsolutePath().toString();
        transfer(from, to.uri(), Files.isDirectory(source), isReplacing(options));
    }

    @Override
    public void copy(Path source, Path target, CopyOption... options) throws IOException {
        SeqferryPath from = ours(source);
        SeqferryPath to = ours(target);
        to.forget();
        if (!attributes(from).folder()) {
            transfer(from.uri(), to.uri(), false, isReplacing(options));
        }
    }

    @Override
    public void move(Path source, Path target, CopyOption... options) throws IOException {
        copy(source, target, options);
        delete(source);
    }

    private static void transfer(String source, String target, boolean folder, boolean replace) throws IOException {
        Map<String, Object> facts = facts(source, target, replace);
        facts.put("folder", folder);
        SeqferryFileSystem.helper().call("copy", facts, null);
    }

    private static Map<String, Object> facts(String source, String target, boolean replace) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("source", source);
        facts.put("target", target);
        facts.put("replace", replace);
        return facts;
    }

    private static boolean isReplacing(CopyOption[] options) {
        return Arrays.asList(options).contains(StandardCopyOption.REPLACE_EXISTING);
    }

    private static boolean isLocal(Path path) {
        return path.getFileSystem() == FileSystems.getDefault();
    }

    // --- what is there -----------------------------------------------------------------------------------------------

    @Override
    public DirectoryStream<Path> newDirectoryStream(Path folder, DirectoryStream.Filter<? super Path> filter)
            throws IOException {
        SeqferryPath place = ours(folder);
        List<Object> entries = new ArrayList<>();
        SeqferryFileSystem.helper().call("list", Map.of("uri", place.uri()), entries);
        if (entries.isEmpty() && !attributes(place).folder()) {
            throw new NotDirectoryException(place.toString());
        }
        List<Path> found = new ArrayList<>(entries.size());
        for (Object entry : entries) {
            SeqferryPath path = entryOf(place, (List<?>) entry);
            if (filter.accept(path)) {
                found.add(path);
            }
        }
        return new DirectoryStream<>() {
            @Override
            public Iterator<Path> iterator() {
                return found.iterator();
            }

            @Override
            public void close() {
                // Nothing is held.
            }
        };
    }

    private static SeqferryPath entryOf(SeqferryPath folder, List<?> entry) {
        String name = (String) entry.get(0);
        SeqferryPath path = (SeqferryPath) folder.resolve(name);
        return path.learn(entry.size() == 1 ? Attributes.FOLDER : file(entry.get(1), entry.get(2), entry.get(3)));
    }

    private static Attributes file(Object size, Object modified, Object etag) {
        long millis = Math.round(((Number) modified).doubleValue() * 1000);
        return new Attributes(false, ((Number) size).longValue(), millis, String.valueOf(etag));
    }

    private static Attributes attributes(SeqferryPath path) throws IOException {
        Attributes known = path.known();
        if (known != null) {
            return known;
        }
        Map<?, ?> found = SeqferryFileSystem.helper().call("stat", Map.of("uri", path.uri()), null);
        return switch (String.valueOf(found.get("kind"))) {
            case "file" -> file(found.get("size"), found.get("modified"), found.get("etag"));
            case "folder" -> Attributes.FOLDER;
            default -> throw new NoSuchFileException(path.uri());
        };
    }

    @Override
    public void checkAccess(Path path, AccessMode... modes) throws IOException {
        attributes(ours(path));
    }

    @Override
    public <A extends BasicFileAttributes> A readAttributes(Path path, Class<A> type, LinkOption... options)
            throws IOException {
        if (!type.isAssignableFrom(Attributes.class)) {
            throw new UnsupportedOperationException("S3 has no " + type.getSimpleName());
        }
        return type.cast(attributes(ours(path)));
    }

    @Override
    public Map<String, Object> readAttributes(Path path, String names, LinkOption... options) throws IOException {
        Attributes found = attributes(ours(path));
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("size", found.size());
        all.put("lastModifiedTime", found.lastModifiedTime());
        all.put("lastAccessTime", found.lastAccessTime());
        all.put("creationTime", found.creationTime());
        all.put("isDirectory", found.isDirectory());
        all.put("isRegularFile", found.isRegularFile());
        all.put("isSymbolicLink", false);
        all.put("isOther", false);
        all.put("fileKey", found.fileKey());
        List<String> wanted = List.of(names.substring(names.indexOf(':') + 1).split(","));
        if (!wanted.contains("*")) {
            all.keySet().retainAll(wanted);
        }
        return all;
    }

    @Override
    public <V extends FileAttributeView> V getFileAttributeView(Path path, Class<V> type, LinkOption... options) {
        if (type != BasicFileAttributeView.class) {
            return null;
        }
        return type.cast(new BasicFileAttributeView() {
            @Override
            public String name() {
                return "basic";
            }

            @Override
            public BasicFileAttributes readAttributes() throws IOException {
                return attributes(ours(path));
            }

            @Override
            public void setTimes(FileTime modified, FileTime accessed, FileTime created) {
                // An object has the time of its upload.
            }
        });
    }

    @Override
    public void setAttribute(Path path, String attribute, Object value, LinkOption... options) {
        throw new UnsupportedOperationException("Objects of S3 have no attribute " + attribute + " that can be set");
    }

    @Override
    public boolean isSameFile(Path one, Path other) {
        return one.equals(other);
    }

    @Override
    public boolean isHidden(Path path) {
        return false;
    }

    @Override
    public FileStore getFileStore(Path path) {
        throw new UnsupportedOperationException("A bucket is no disk");
    }

    // --- changes -----------------------------------------------------------------------------------------------------

    @Override
    public void createDirectory(Path folder, FileAttribute<?>... attributes) {
        ours(folder);
    }

    @Override
    public void delete(Path path) throws IOException {
        SeqferryPath place = ours(path);
        place.forget();
        if (place.getNameCount() > 0) {
            SeqferryFileSystem.helper().call("delete", Map.of("uri", place.uri()), null);
        }
    }

    // --- streams -----------------------------------------------------------------------------------------------------

    @Override
    public InputStream newInputStream(Path path, OpenOption... options) throws IOException {
        Path file = fetched(ours(path));
        return new FilterInputStream(Files.newInputStream(file)) {
            @Override
            public void close() throws IOException {
                super.close();
                Files.deleteIfExists(file);
            }
        };
    }

    @Override
    public OutputStream newOutputStream(Path path, OpenOption... options) throws IOException {
        Set<OpenOption> given = Set.of(options);
        Path file = temporary();
        refuseAppending(given);
        boolean replace = !given.contains(StandardOpenOption.CREATE_NEW);
        return new FilterOutputStream(Files.newOutputStream(file)) {
            private boolean closed;

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                out.write(bytes, offset, length);
            }

            @Override
            public void close() throws IOException {
                if (!closed) {
                    closed = true;
                    super.close();
                    send(file, ours(path), replace);
                }
            }
        };
    }

    @Override
    public SeekableByteChannel newByteChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... more)
            throws IOException {
        SeqferryPath place = ours(path);
        refuseAppending(options);
        if (!options.contains(StandardOpenOption.WRITE)) {
            Path file = fetched(place);
            return FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.DELETE_ON_CLOSE);
        }
        Path file = temporary();
        boolean replace = !options.contains(StandardOpenOption.CREATE_NEW);
        FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE, StandardOpenOption.READ);
        return new UploadingChannel(channel, () -> send(file, place, replace));
    }

    private static void refuseAppending(Set<? extends OpenOption> options) {
        if (options.contains(StandardOpenOption.APPEND)) {
            throw new UnsupportedOperationException("Nothing can be appended to an object of S3");
        }
    }

    private static Path temporary() throws IOException {
        return Files.createTempFile("nf-seqferry-", ".tmp");
    }

    private static Path fetched(SeqferryPath path) throws IOException {
        Path file = temporary();
        try {
            transfer(path.uri(), file.toString(), false, true);
        } catch (IOException | RuntimeException why) {
            Files.deleteIfExists(file);
            throw why;
        }
        return file;
    }

    private static void send(Path file, SeqferryPath target, boolean replace) throws IOException {
        target.forget();
        try {
            transfer(file.toString(), target.uri(), false, replace);
        } finally {
            Files.deleteIfExists(file);
        }
    }

    private static SeqferryPath ours(Path path) {
        if (path instanceof SeqferryPath found && found.isAbsolute()) {
            return found;
        }
        throw new ProviderMismatchException("Not an address in S3: " + path);
    }
}
