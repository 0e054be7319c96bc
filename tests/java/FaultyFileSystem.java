package tfos.testing;

import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.net.URI;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The files of this host as {@code faulty:///path}: each read gives a few bytes fewer than asked
 * for, and the operation that $TFOS_TEST_FAULTS plans fails.
 *
 * <p>The variable names a file, which holds {@code OPERATION N}: the N-th such operation from now on
 * fails, of whatever process, and after it none. An empty file plans nothing.
 */
public class FaultyFileSystem extends RawLocalFileSystem {
  private static final URI NAME = URI.create("faulty:///");
  private static final int MOST_BYTES_READ = 4093;

  /** Set while it lists a folder: the status of each file in it is not a step then, as on a
   *  NameNode. */
  private final ThreadLocal<Boolean> isListing = ThreadLocal.withInitial(() -> false);

  @Override
  public URI getUri() {
    return NAME;
  }

  @Override
  public String getScheme() {
    return NAME.getScheme();
  }

  /** Fails if this is the operation that is to. */
  private static synchronized void step(String operation) throws IOException {
    String plan = System.getenv("TFOS_TEST_FAULTS");
    if (plan == null) {
      return;
    }
    try (RandomAccessFile file = new RandomAccessFile(plan, "rw");
        FileLock lock = file.getChannel().lock()) {
      byte[] content = new byte[(int) file.length()];
      file.readFully(content);
      String[] words = new String(content, StandardCharsets.UTF_8).trim().split(" ");
      if (!words[0].equals(operation)) {
        return;
      }
      int left = Integer.parseInt(words[1]) - 1;
      file.setLength(0);
      if (left == 0) {
        throw new IOException("injected failure of " + operation);
      }
      file.write((operation + " " + left).getBytes(StandardCharsets.UTF_8));
    }
  }

  @Override
  public FSDataInputStream open(Path path, int bufferBytes) throws IOException {
    step("open");
    return new FSDataInputStream(new Input(super.open(path, bufferBytes)));
  }

  @Override
  protected OutputStream createOutputStream(Path path, boolean append) throws IOException {
    step(append ? "append" : "create");
    return new Output(super.createOutputStream(path, append));
  }

  @Override
  protected OutputStream createOutputStreamWithMode(
      Path path, boolean append, FsPermission permission) throws IOException {
    step(append ? "append" : "create");
    return new Output(super.createOutputStreamWithMode(path, append, permission));
  }

  /** As FileSystem's own does: there are object stores that leave it at that. */
  @Override
  public FSDataOutputStream createNonRecursive(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    throw new IOException("createNonRecursive unsupported for this filesystem " + getClass());
  }

  // Before the default implementation, which deletes what is replaced first.
  @Override
  @SuppressWarnings("deprecation")
  protected void rename(Path from, Path to, Options.Rename... options) throws IOException {
    step("rename");
    super.rename(from, to, options);
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    step("delete");
    return super.delete(path, recursive);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    if (!isListing.get()) {
      step("status");
    }
    return super.getFileStatus(path);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    step("list");
    isListing.set(true);
    try {
      return super.listStatus(path);
    } finally {
      isListing.set(false);
    }
  }

  @Override
  public boolean mkdirs(Path path) throws IOException {
    step("mkdirs");
    return super.mkdirs(path);
  }

  private static final class Input extends FSInputStream {
    private final FSDataInputStream from;

    Input(FSDataInputStream from) {
      this.from = from;
    }

    @Override
    public int read() throws IOException {
      step("read");
      return from.read();
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
      step("read");
      int got = from.read(bytes, offset, Math.min(length, MOST_BYTES_READ));
      step("midread"); // As a connection that breaks: the stream has moved.
      return got;
    }

    @Override
    public int read(long position, byte[] bytes, int offset, int length) throws IOException {
      step("read");
      return from.read(position, bytes, offset, Math.min(length, MOST_BYTES_READ));
    }

    @Override
    public void seek(long position) throws IOException {
      from.seek(position);
    }

    @Override
    public long getPos() throws IOException {
      return from.getPos();
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public void close() throws IOException {
      from.close();
    }
  }

  private static final class Output extends OutputStream implements Syncable, StreamCapabilities {
    private final OutputStream to;
    private boolean closed;

    Output(OutputStream to) {
      this.to = to;
    }

    @Override
    public void write(int one) throws IOException {
      step("write");
      to.write(one);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      try {
        step("write");
      } catch (IOException failure) {
        to.write(bytes, offset, length / 2);
        throw failure;
      }
      to.write(bytes, offset, length);
    }

    @Override
    public void hflush() throws IOException {
      step("flush");
      ((Syncable) to).hflush();
    }

    @Override
    public void hsync() throws IOException {
      step("sync");
      ((Syncable) to).hsync();
    }

    @Override
    public boolean hasCapability(String name) {
      return to instanceof StreamCapabilities && ((StreamCapabilities) to).hasCapability(name);
    }

    @Override
    public void close() throws IOException {
      if (closed) {
        return;
      }
      closed = true;
      to.close();
      step("close");
    }
  }
}
