package seqferry.nextflow;

import java.nio.file.Path;
import nextflow.file.FileHelper;
import nextflow.file.FileSystemPathFactory;

/** From {@code s3://bucket/key} to a path and back. Nextflow asks it before it looks for a plugin of its own. */
public class SeqferryPathFactory extends FileSystemPathFactory {

    @Override
    protected Path parseUri(String uri) {
        if (!uri.startsWith(SeqferryPath.PREFIX)) {
            return null;
        }
        return FileHelper.getOrInstallProvider(SeqferryFileSystemProvider.class).fileSystem().parse(uri);
    }

    @Override
    protected String toUriString(Path path) {
        return path instanceof SeqferryPath ours ? ours.uri() : null;
    }

    /** Tasks run where the work folder is a file system: their wrappers need no functions for S3. */
    @Override
    protected String getBashLib(Path target) {
        return null;
    }

    @Override
    protected String getUploadCmd(String source, Path target) {
        return null;
    }
}
