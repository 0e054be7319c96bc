package tfos.internal.records;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;

/**
 * Writes bytes as records, for Hadoop. A file without records is empty.
 *
 * <p>Owner and lifetime: Hadoop's or Spark's task, until {@link #close}, which alone says that all
 * of it was written. Threads: one at a time. Errors: those of the file system.
 */
public final class BytesRecordWriter extends RecordWriter<BytesWritable, NullWritable> {
  /** Compression is the codec's. */
  private static final WritePlan PLAN =
      new WritePlan(RecordOptions.BYTE_ARRAY, "", -1, false, RecordColumns.BYTE_ARRAY_TABLE);

  private final OutputStream stream;
  private final RecordFileWriter writer;
  /** The writer closes the stream, once it has it. Codecs fail when theirs is closed twice. */
  private boolean taken;

  /** Takes the stream. */
  public BytesRecordWriter(OutputStream stream, Path file, Configuration hadoop) {
    this.stream = stream;
    writer = new RecordFileWriter(file, hadoop, PLAN, this::take);
  }

  private OutputStream take() {
    taken = true;
    return stream;
  }

  @Override
  public void write(BytesWritable key, NullWritable value) {
    writer.write(new GenericInternalRow(new Object[] {key.copyBytes()}));
  }

  @Override
  public void close(TaskAttemptContext context) throws IOException {
    try {
      writer.close();
    } finally {
      if (!taken) {
        stream.close();
      }
    }
  }
}
