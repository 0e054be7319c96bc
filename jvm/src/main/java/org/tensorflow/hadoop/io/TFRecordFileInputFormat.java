package org.tensorflow.hadoop.io;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import tfos.internal.records.BytesRecordReader;
import tfos.internal.records.RecordIndexes;

/**
 * Files of TFRecords as pairs of a record's bytes and nothing, under the name that programs give to
 * {@code newAPIHadoopFile}. Files whose names end as those of one of Hadoop's codecs (.gz) are
 * decompressed. Each file is one split: records don't say where they begin. Indexes beside the files
 * are passed over, and what {@code hdfs dfs -put} has not copied to its end.
 */
public class TFRecordFileInputFormat extends FileInputFormat<BytesWritable, NullWritable> {
  @Override
  public RecordReader<BytesWritable, NullWritable> createRecordReader(
      InputSplit split, TaskAttemptContext context) throws IOException {
    return new BytesRecordReader();
  }

  @Override
  protected List<FileStatus> listStatus(JobContext context) throws IOException {
    List<FileStatus> files = new ArrayList<>(super.listStatus(context));
    files.removeIf(
        file ->
            RecordIndexes.isIndex(file.getPath())
                || file.getPath().getName().endsWith("._COPYING_"));
    return files;
  }

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return false;
  }
}
