package tfos;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import tfos.internal.records.spark.RecordFiles;

/**
 * DataFrames and TFRecord files of tf.Examples, on any file system of Hadoop's. What becomes of
 * which type is in docs/tfrecords.md.
 *
 * <p>Threads: any. Errors: {@link IllegalArgumentException} for columns that don't fit, before
 * anything runs; file and record where one is damaged.
 */
public final class TFRecords {
  private TFRecords() {}

  /** A lazy DataFrame with the columns of a sample of the records. */
  public static Dataset<Row> load(SparkSession spark, String path) {
    return load(spark, path, new StructType());
  }

  /**
   * A lazy DataFrame whose first columns are those of {@code hint}; what else the sample has comes
   * behind them, in the order of names. A directory without records is an empty table of the
   * columns of {@code hint}.
   *
   * @param path a file, a directory or a pattern; several are separated by commas
   */
  public static Dataset<Row> load(SparkSession spark, String path, StructType hint) {
    return RecordFiles.load(spark, path, hint);
  }

  /** Writes a directory that there must not be yet: a file for each partition. */
  public static void save(Dataset<?> frame, String path) {
    RecordFiles.save(frame, path);
  }
}
