package org.tensorflow.hadoop.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import tfos.internal.records.BytesRecordReader;
import tfos.internal.records.RecordIndexes;

/**
 * Files of TFRecords as pairs of a record's bytes and nothing, under the name that programs give to
 * {@code newAPIHadoopFile}. Files whose names end as those of one of Hadoop's codecs (.gz) are
 * decompressed. Each file is one split: records don't say where they begin. Passed over are hidden
 * files ({@code _x}, {@code .x}), indexes, and what {@code hdfs dfs -put} has not copied to its end;
 * but a file that a path names itself is read.
 */
public class TFRecordFileInputFormat extends FileInputFormat<BytesWritable, NullWritable> {
  @Override
  public RecordReader<BytesWritable, NullWritable> createRecordReader(
      InputSplit split, TaskAttemptContext context) throws IOException {
    return new BytesRecordReader();
  }

  @Override
  protected List<FileStatus> listStatus(JobContext context) throws IOException {
    List<FileStatus> named = new ArrayList<>();
    List<Path> others = new ArrayList<>();
    for (Path path : getInputPaths(context)) {
      FileStatus file = isPassedOver(path) ? fileAt(path, context) : null;
      if (file == null) {
        others.add(path);
      } else {
        named.add(file);
      }
    }
    if (named.isEmpty()) {
      return listed(context);
    }
    if (!others.isEmpty()) {
      Job job = Job.getInstance(context.getConfiguration());
      setInputPaths(job, others.toArray(new Path[0]));
      named.addAll(listed(job));
      // Listing may have asked a secured file system for tokens.
      context.getCredentials().addAll(job.getCredentials());
    }
    return named;
  }

  /** What paths that are patterns or directories mean, and files of other names. */
  private List<FileStatus> listed(JobContext context) throws IOException {
    List<FileStatus> files = new ArrayList<>(super.listStatus(context));
    files.removeIf(file -> isPassedOver(file.getPath()));
    return files;
  }

  /** Hadoop passes over the first two itself, also where a path names them. */
  private static boolean isPassedOver(Path path) {
    String name = path.getName();
    return name.startsWith("_")
        || name.startsWith(".")
        || name.endsWith("._COPYING_")
        || RecordIndexes.isIndex(path);
  }

  /** Null where there is no file, as for a pattern or a directory. */
  private static FileStatus fileAt(Path path, JobContext context) throws IOException {
    try {
      FileStatus status = path.getFileSystem(context.getConfiguration()).getFileStatus(path);
      return status.isFile() ? status : null;
    } catch (FileNotFoundException error) {
      return null;
    }
  }

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return false;
  }
}
