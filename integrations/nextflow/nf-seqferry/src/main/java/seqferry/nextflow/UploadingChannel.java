package seqferry.nextflow;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;

/** A channel into a temporary file that is uploaded when the channel is closed. */
final class UploadingChannel implements SeekableByteChannel {

    /** What is done once the file is whole. */
    interface Upload {
        void run() throws IOException;
    }

    private final SeekableByteChannel file;
    private final Upload upload;

    UploadingChannel(SeekableByteChannel file, Upload upload) {
        this.file = file;
        this.upload = upload;
    }

    @Override
    public int read(ByteBuffer target) throws IOException {
        return file.read(target);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
        return file.write(source);
    }

    @Override
    public long position() throws IOException {
        return file.position();
    }

    @Override
    public SeekableByteChannel position(long position) throws IOException {
        file.position(position);
        return this;
    }

    @Override
    public long size() throws IOException {
        return file.size();
    }

    @Override
    public SeekableByteChannel truncate(long size) throws IOException {
        file.truncate(size);
        return this;
    }

    @Override
    public boolean isOpen() {
        return file.isOpen();
    }

    @Override
    public void close() throws IOException {
        if (file.isOpen()) {
            file.close();
            upload.run();
        }
    }
}
