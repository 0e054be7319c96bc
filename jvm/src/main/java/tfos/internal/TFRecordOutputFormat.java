package tfos.internal;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Rows of the schema that the configuration has as TFRecord files of tf.Examples, a file for each
 * task. Hadoop commits them: what failed or ran twice leaves nothing.
 */
public final class TFRecordOutputFormat extends FileOutputFormat<NullWritable, InternalRow> {
  private static final int BATCH_ROWS = 1_024;
  private static final long BATCH_BYTES = 4L << 20;

  @Override
  public RecordWriter<NullWritable, InternalRow> getRecordWriter(TaskAttemptContext context)
      throws IOException {
    Configuration configuration = context.getConfiguration();
    Path path = getDefaultWorkFile(context, ".tfrecord");
    StructType schema = TFRecordInputFormat.schemaOf(configuration);
    OutputStream file = path.getFileSystem(configuration).create(path, false);
    return new Writer(file, path, schema);
  }

  private static final class Writer extends RecordWriter<NullWritable, InternalRow> {
    private final OutputStream file;
    private final ColumnWriter.Table table;
    private long writer;
    private boolean failed;

    Writer(OutputStream file, Path path, StructType schema) {
      this.file = file;
      table = new ColumnWriter.Table(schema, schema.fieldNames());
      writer = NativeRecords.newWriter(file, path.toString(), "",
          ColumnTypes.toJson(schema).toString());
    }

    @Override
    public void write(NullWritable key, InternalRow row) {
      table.append(row);
      if (table.rows() >= BATCH_ROWS || table.bytes() >= BATCH_BYTES) {
        flush();
      }
    }

    private void flush() {
      failed = true; // Unless what follows succeeds.
      NativeRecords.write(writer, table.describe());
      table.clear();
      failed = false;
    }

    @Override
    public void close(TaskAttemptContext context) throws IOException {
      if (writer == 0) {
        return; // Spark closes once more what failed to close.
      }
      try (OutputStream closed = file; table) {
        if (!failed) {
          flush();
          NativeRecords.finish(writer);
        }
      } finally {
        NativeRecords.deleteWriter(writer);
        writer = 0;
      }
    }
  }
}
