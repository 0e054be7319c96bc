package tfos.internal.records;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which files have an index beside them, as it was when first asked; and what an index says.
 *
 * <p>Threads: any. Errors: those of the file system where an index is read; {@link
 * IllegalArgumentException} for an index that is damaged or of another content.
 */
public final class RecordIndexes {
  private static final Logger LOG = LoggerFactory.getLogger(RecordIndexes.class);
  private static final String SUFFIX = ".tfindex";
  /** Bytes of a file's begin and end that an index is checked with: kFingerprintBytes in C++. */
  private static final int FINGERPRINT_BYTES = 4_096;

  /**
   * The names of the indexes in a directory. Files come by the thousand, directory by directory.
   */
  private final Map<Path, Set<String>> found = new ConcurrentHashMap<>();

  public static boolean isIndex(Path file) {
    return file.getName().endsWith(SUFFIX);
  }

  static Path indexOf(Path file) {
    return file.suffix(SUFFIX);
  }

  /** {@code hadoop} is asked for each directory, not for each file: it takes long to make. */
  public boolean hasIndex(Path file, Supplier<Configuration> hadoop) {
    return found.computeIfAbsent(file.getParent(), directory -> list(directory, hadoop.get()))
        .contains(indexOf(file).getName());
  }

  private static Set<String> list(Path directory, Configuration hadoop) {
    Set<String> names = new HashSet<>();
    try {
      FileSystem files = directory.getFileSystem(hadoop);
      for (FileStatus status : files.listStatus(directory, RecordIndexes::isIndex)) {
        names.add(status.getPath().getName());
      }
    } catch (IOException error) {
      // A file may be read where its directory can't be listed: whole, then.
      LOG.info("no index is looked for in {}: {}", directory, error.toString());
    }
    return names;
  }

  /** [begin, end, first record] of a part of a file, by the index beside it. */
  public static long[] part(Path file, long bytes, long begin, long end, Configuration hadoop)
      throws IOException {
    FileSystem files = file.getFileSystem(hadoop);
    byte[] index;
    try (FSDataInputStream stream = files.open(indexOf(file))) {
      index = stream.readAllBytes();
    } catch (FileNotFoundException error) {
      // It is not the class for a missing file: Spark may have been told to pass over those.
      throw new IOException("the index " + indexOf(file) + " was there a moment ago", error);
    }
    int most = (int) Math.min(bytes, FINGERPRINT_BYTES);
    byte[] head = new byte[most];
    byte[] tail = new byte[most];
    try (FSDataInputStream stream = files.open(file)) {
      stream.readFully(0, head);
      stream.readFully(bytes - most, tail);
    }
    return NativeRecords.part(index, file.toString(), bytes, head, tail, begin, end);
  }
}
