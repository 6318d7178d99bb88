import java.io.FileOutputStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.attribute.FileTime;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** Zips as Java makes them: deflated with descriptors behind the contents, stored, and in the code page of MS-DOS. */
public class Make {
    public static void main(String[] words) throws Exception {
        make(words[0] + "/java-deflated.zip", ZipEntry.DEFLATED, StandardCharsets.UTF_8, "d/ünï");
        make(words[0] + "/java-stored.zip", ZipEntry.STORED, StandardCharsets.UTF_8, "d/ünï");
        make(words[0] + "/java-cp437.zip", ZipEntry.DEFLATED, Charset.forName("IBM437"), "d/ünï");
    }

    private static void make(String path, int method, Charset names, String second) throws Exception {
        try (ZipOutputStream out = new ZipOutputStream(new FileOutputStream(path), names)) {
            out.setComment("made by Java");
            for (String name : new String[] {"d/", "d/a", second}) {
                byte[] body = name.endsWith("/") ? new byte[0] : "hello".getBytes(StandardCharsets.UTF_8);
                ZipEntry entry = new ZipEntry(name);
                entry.setLastModifiedTime(FileTime.fromMillis(1000000000000L));
                entry.setMethod(method);
                if (method == ZipEntry.STORED) {
                    CRC32 sum = new CRC32();
                    sum.update(body);
                    entry.setSize(body.length);
                    entry.setCrc(sum.getValue());
                }
                out.putNextEntry(entry);
                out.write(body);
                out.closeEntry();
            }
        }
    }
}
