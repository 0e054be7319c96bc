package org.tensorflow.hadoop.io;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.util.ReflectionUtils;
import tfos.internal.records.BytesRecordWriter;

/**
 * Writes keys as TFRecords, under the name that programs give to {@code saveAsNewAPIHadoopFile}.
 * Values are not looked at. Compressed if the job says so, by any of Hadoop's codecs; gzip where it
 * names none.
 */
public class TFRecordFileOutputFormat extends FileOutputFormat<BytesWritable, NullWritable> {
  @Override
  public RecordWriter<BytesWritable, NullWritable> getRecordWriter(TaskAttemptContext context)
      throws IOException {
    Configuration configuration = context.getConfiguration();
    CompressionCodec codec = getCompressOutput(context)
        ? ReflectionUtils.newInstance(
            getOutputCompressorClass(context, GzipCodec.class), configuration)
        : null;
    Path file = getDefaultWorkFile(context, codec == null ? "" : codec.getDefaultExtension());
    OutputStream stream = file.getFileSystem(configuration).create(file, false);
    try {
      return new BytesRecordWriter(
          codec == null ? stream : codec.createOutputStream(stream), file, configuration);
    } catch (IOException | RuntimeException error) {
      stream.close();
      throw error;
    }
  }
}
