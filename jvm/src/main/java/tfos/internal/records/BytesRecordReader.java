package tfos.internal.records;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import tfos.internal.columns.NativeColumns;

/**
 * The records of a file as they are, for Hadoop. Each key is an object of its own.
 *
 * <p>Owner and lifetime: Hadoop's or Spark's task, until {@link #close}. Threads: one at a time.
 * Errors: {@link IOException} with file and record, for damaged files too.
 */
public final class BytesRecordReader extends RecordReader<BytesWritable, NullWritable> {
  /** Decompression is the codec's. */
  private static final ReadPlan PLAN = new ReadPlan(
      RecordOptions.BYTE_ARRAY, "", ReadPlan.FAIL_FAST, "full", RecordColumns.BYTE_ARRAY_TABLE, "");

  private FSDataInputStream file;
  private InputStream stream;
  private long length;
  private long reader;
  private NativeColumns batch;
  private int next;
  private BytesWritable key;

  @Override
  public void initialize(InputSplit split, TaskAttemptContext context)
      throws IOException, InterruptedException {
    Path path = ((FileSplit) split).getPath();
    Configuration configuration = context.getConfiguration();
    length = split.getLength();
    file = path.getFileSystem(configuration).open(path);
    CompressionCodec codec = new CompressionCodecFactory(configuration).getCodec(path);
    stream = codec == null ? file : codec.createInputStream(file);
    reader = NativeRecords.newReader(
        stream, path.toString(), PLAN.toJson(path, 0, Long.MAX_VALUE, 0));
  }

  @Override
  public boolean nextKeyValue() throws IOException {
    if (batch == null || next == batch.rows()) {
      freeBatch();
      try {
        batch = new NativeColumns(RecordColumns.BYTE_ARRAY_TABLE, NativeRecords.next(reader));
      } catch (IllegalArgumentException error) {
        throw new IOException(error.getMessage(), error); // As Hadoop's own formats do.
      }
      next = 0;
    }
    if (batch.rows() == 0) {
      key = null;
      return false;
    }
    key = new BytesWritable(batch.column(0).getBinary(next++));
    return true;
  }

  @Override
  public BytesWritable getCurrentKey() {
    return key;
  }

  @Override
  public NullWritable getCurrentValue() {
    return NullWritable.get();
  }

  @Override
  public float getProgress() throws IOException {
    return length == 0 ? 1 : Math.min(1, (float) file.getPos() / length);
  }

  private void freeBatch() {
    if (batch != null) {
      batch.close();
      batch = null;
    }
  }

  @Override
  public void close() throws IOException {
    freeBatch();
    if (reader != 0) {
      NativeRecords.deleteReader(reader);
      reader = 0;
    }
    try {
      if (stream != null) {
        stream.close();
      }
    } finally {
      if (file != null) {
        file.close();
      }
    }
  }
}
