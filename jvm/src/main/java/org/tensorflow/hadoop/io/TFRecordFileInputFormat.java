package org.tensorflow.hadoop.io;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import tfos.internal.records.BytesRecordReader;

/**
 * Files of TFRecords as pairs of a record's bytes and nothing, under the name that programs give to
 * {@code newAPIHadoopFile}. Files whose names end as those of one of Hadoop's codecs (.gz) are
 * decompressed. Each file is one split: records don't say where they begin.
 */
public class TFRecordFileInputFormat extends FileInputFormat<BytesWritable, NullWritable> {
  @Override
  public RecordReader<BytesWritable, NullWritable> createRecordReader(
      InputSplit split, TaskAttemptContext context) throws IOException {
    return new BytesRecordReader();
  }

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return false;
  }
}
