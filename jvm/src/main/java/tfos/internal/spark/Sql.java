package tfos.internal.spark;

import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * DataFrames as rows in Spark's own form and back: the one place that needs what Spark does not
 * promise to keep. Its public Row costs many times as much. Threads: any.
 */
public final class Sql {
  private Sql() {}

  /** Rows as {@link FrameRows} has them, planned now. */
  static RDD<InternalRow> planned(Dataset<?> frame) {
    return SparkVersions.execution(frame).toRdd();
  }

  /**
   * Whether the DataFrame computes metrics of {@code Dataset.observe}. Spark reports those of the
   * query that it runs, and none of what {@link FrameRows} plans below it.
   */
  public static boolean isObserved(Dataset<?> frame) {
    return SparkVersions.execution(frame).analyzed().exists(
        plan -> plan instanceof CollectMetrics);
  }

  public static Dataset<Row> frame(
      SparkSession spark, JavaRDD<InternalRow> rows, StructType schema) {
    return SparkVersions.frame(spark, rows.rdd(), schema);
  }

  /** Hadoop's configuration with the session's settings. */
  public static Configuration hadoop(SparkSession spark) {
    return SparkVersions.state(spark).newHadoopConf();
  }

  /** The same, with the options of a reader or writer that are Hadoop's. */
  public static Configuration hadoop(
      SparkSession spark, scala.collection.immutable.Map<String, String> options) {
    return SparkVersions.state(spark).newHadoopConfWithOptions(options);
  }

  /** A name as the session compares it with others: by default without regard to capitals. */
  public static String compared(SparkSession spark, String name) {
    return SparkVersions.state(spark).conf().caseSensitiveAnalysis()
        ? name : name.toLowerCase(Locale.ROOT);
  }

  /** By its name, whatever that has in it. */
  public static Column column(String name) {
    return functions.col("`" + name.replace("`", "``") + "`");
  }
}
