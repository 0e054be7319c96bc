import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Reads or writes a file with Hadoop's client: for each line of input ("read URI", "write URI BYTES") the seconds. */
class HadoopFile {
  private static final byte[] BUFFER = new byte[1 << 20];

  public static void main(String[] arguments) throws Exception {
    var configuration = new Configuration();
    var lines = new java.util.Scanner(System.in);
    while (lines.hasNextLine()) {
      var words = lines.nextLine().split(" ");
      var path = new Path(words[1]);
      var files = FileSystem.get(URI.create(words[1]), configuration);
      long start = System.nanoTime();
      if (words[0].equals("read")) {
        read(files, path);
      } else {
        write(files, path, Long.parseLong(words[2]));
      }
      System.out.println((System.nanoTime() - start) / 1e9);
      System.out.flush();
    }
  }

  private static void read(FileSystem files, Path path) throws Exception {
    try (FSDataInputStream file = files.open(path)) {
      while (file.read(BUFFER) >= 0) {
        continue;
      }
    }
  }

  private static void write(FileSystem files, Path path, long bytes) throws Exception {
    try (FSDataOutputStream file = files.create(path)) {
      for (long left = bytes; left > 0; left -= BUFFER.length) {
        file.write(BUFFER, 0, (int) Math.min(left, BUFFER.length));
      }
    }
  }
}
