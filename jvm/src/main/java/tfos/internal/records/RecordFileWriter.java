package tfos.internal.records;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import tfos.internal.columns.ColumnTable;

/**
 * Writes a file of records, and its index if there is to be one. Without a row there is no file.
 *
 * <p>Owner and lifetime: its maker, until {@link #close}, which alone says that all of it was
 * written. Threads: one at a time. Errors: {@link IllegalArgumentException} for rows that records
 * can't hold, and those of the file system.
 */
public final class RecordFileWriter implements AutoCloseable {
  private static final int BATCH_ROWS = 1_024;
  private static final long BATCH_BYTES = 1L << 20;

  /** Makes the file, when there is a first row. */
  @FunctionalInterface
  interface Opener {
    OutputStream open() throws IOException;
  }

  private final Path path;
  private final Configuration hadoop;
  private final Opener opener;
  private final WritePlan plan;
  private final ColumnTable table;
  private OutputStream file;
  private long writer;
  private boolean failed;

  public RecordFileWriter(Path path, Configuration hadoop, WritePlan plan) {
    this(path, hadoop, plan, () -> path.getFileSystem(hadoop).create(path, false));
  }

  RecordFileWriter(Path path, Configuration hadoop, WritePlan plan, Opener opener) {
    this.path = path;
    this.hadoop = hadoop;
    this.opener = opener;
    this.plan = plan;
    table = new ColumnTable(plan.columns(), RecordColumnWriters::of);
  }

  public void write(InternalRow row) {
    table.append(row);
    if (table.rows() >= BATCH_ROWS || table.bytes() >= BATCH_BYTES) {
      flush();
    }
  }

  private void flush() {
    failed = true; // Unless what follows succeeds.
    if (writer == 0) {
      open();
    }
    NativeRecords.write(writer, table.describe());
    table.clear();
    failed = false;
  }

  private void open() {
    try {
      file = opener.open();
    } catch (IOException error) {
      throw new UncheckedIOException("creating " + path, error);
    }
    writer = NativeRecords.newWriter(file, path.toString(), plan.toJson());
  }

  /** Spark closes once more what failed to close. */
  @Override
  public void close() throws IOException {
    try (table) {
      if (!failed && table.rows() > 0) {
        flush();
      }
    } finally {
      table.clear();
      if (writer != 0) {
        finish();
      } else if (file != null) {
        file.close(); // Once more, or there was no writer for it.
      }
    }
  }

  @SuppressWarnings("try") // The file is only closed there, whatever happens.
  private void finish() throws IOException {
    byte[] index = null;
    try (OutputStream closed = file) {
      if (!failed) {
        NativeRecords.finish(writer);
        index = plan.index() ? NativeRecords.index(writer) : null;
      }
    } finally {
      NativeRecords.deleteWriter(writer);
      writer = 0;
    }
    if (index != null) {
      FileSystem files = path.getFileSystem(hadoop);
      try (OutputStream beside = files.create(RecordIndexes.indexOf(path), false)) {
        beside.write(index);
      }
    }
  }
}
