package seqferry.nextflow;

import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;

/**
 * What is known of an object or a folder.
 *
 * <p>A folder of S3 has neither size nor date: both are zero, so that hashes of inputs stay the same from run to run.
 *
 * @param millis last modification, milliseconds since the epoch
 */
record Attributes(boolean folder, long size, long millis, String etag) implements BasicFileAttributes {

    static final Attributes FOLDER = new Attributes(true, 0, 0, "");

    @Override
    public FileTime lastModifiedTime() {
        return FileTime.fromMillis(millis);
    }

    @Override
    public FileTime lastAccessTime() {
        return lastModifiedTime();
    }

    @Override
    public FileTime creationTime() {
        return lastModifiedTime();
    }

    @Override
    public boolean isRegularFile() {
        return !folder;
    }

    @Override
    public boolean isDirectory() {
        return folder;
    }

    @Override
    public boolean isSymbolicLink() {
        return false;
    }

    @Override
    public boolean isOther() {
        return false;
    }

    @Override
    public Object fileKey() {
        return etag.isEmpty() ? null : etag;
    }
}
