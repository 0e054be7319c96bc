package tfos.internal;

import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * TFRecord files of tf.Examples as rows of the schema that the configuration has. A task reads a
 * file as a whole: where its records begin only reading it tells.
 */
public final class TFRecordInputFormat extends FileInputFormat<NullWritable, InternalRow> {
  private static final String SCHEMA = "tfos.tfrecord.schema";
  private static final String INDEX_SUFFIX = ".tfindex";

  static void setSchema(Configuration configuration, StructType schema) {
    configuration.set(SCHEMA, schema.json());
  }

  static StructType schemaOf(Configuration configuration) {
    return (StructType) DataType.fromJson(configuration.get(SCHEMA));
  }

  /** "", "GZIP" or "ZLIB", by the end of a file's name. */
  static String compressionOf(Path file) {
    String name = file.getName().toLowerCase(Locale.ROOT);
    if (name.endsWith(".gz") || name.endsWith(".gzip")) {
      return "GZIP";
    }
    return name.endsWith(".zlib") || name.endsWith(".deflate") ? "ZLIB" : "";
  }

  @Override
  public List<FileStatus> listStatus(JobContext job) throws IOException {
    return super.listStatus(job).stream()
        .filter(file -> !file.getPath().getName().endsWith(INDEX_SUFFIX)).toList();
  }

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return false;
  }

  @Override
  public RecordReader<NullWritable, InternalRow> createRecordReader(InputSplit split,
      TaskAttemptContext context) {
    return new Reader();
  }

  /** A row is good until the next one is asked for. */
  private static final class Reader extends RecordReader<NullWritable, InternalRow> {
    private StructType schema;
    private InputStream file;
    private long reader;
    private NativeColumns batch;
    private int row;
    private boolean ended;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
      Configuration configuration = context.getConfiguration();
      Path path = ((FileSplit) split).getPath();
      schema = schemaOf(configuration);
      file = path.getFileSystem(configuration).open(path);
      reader = NativeRecords.newReader(file, path.toString(), compressionOf(path),
          ColumnTypes.toJson(schema).toString());
    }

    @Override
    public boolean nextKeyValue() {
      if (batch != null && ++row < batch.rows()) {
        return true;
      }
      closeBatch();
      if (ended) {
        return false;
      }
      batch = new NativeColumns(schema, NativeRecords.next(reader));
      row = 0;
      ended = batch.rows() == 0;
      return !ended;
    }

    @Override
    public NullWritable getCurrentKey() {
      return NullWritable.get();
    }

    @Override
    public InternalRow getCurrentValue() {
      return batch.row(row);
    }

    @Override
    public float getProgress() {
      return ended ? 1 : 0;
    }

    @Override
    public void close() throws IOException {
      closeBatch();
      if (reader != 0) {
        NativeRecords.deleteReader(reader);
      }
      reader = 0;
      if (file != null) {
        file.close();
      }
      file = null;
    }

    private void closeBatch() {
      if (batch != null) {
        batch.close();
      }
      batch = null;
    }
  }
}
