package tfos.internal.feed;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import tfos.internal.spark.SparkVersions;

/**
 * Feeds DataFrames to the nodes of a cluster without a Python worker: what {@code
 * cluster.train(df)} of the driver's Python program calls (python/tfos/feed/jvm.py).
 */
public final class FrameFeeder {
  private FrameFeeder() {}

  /** The version of the jar. */
  public static String version() {
    return FrameFeeder.class.getPackage().getImplementationVersion();
  }

  /** Where this class was loaded from; "" when it is not known. */
  public static String location() {
    var source = FrameFeeder.class.getProtectionDomain().getCodeSource();
    return source == null || source.getLocation() == null ? "" : source.getLocation().getPath();
  }

  /**
   * Feeds all rows once, in a Spark job of the calling thread.
   *
   * @param plan the JSON that {@code FeedPlan.to_json} of python/tfos/feed/plan.py makes; as bytes,
   *     as py4j would show a text in its log
   * @param names of the columns, in the rows that nodes get
   * @return for each partition its rows, and how many of them were sent twice, as JSON
   */
  public static String train(Dataset<Row> frame, byte[] plan, List<String> names,
      boolean decimalsAsFloat64) {
    // A query of its own: one that ran before would not know what was cached since.
    Dataset<Row> query = frame.select(functions.col("*"));
    QueryExecution execution = SparkVersions.execution(query);
    FrameFeed feed = new FrameFeed(plan, renamed(query.schema(), names), decimalsAsFloat64);
    Option<String> name = Option.apply("tfos feed");
    List<long[]> counts = SQLExecution.withNewExecutionId(execution, name, () -> {
      RDD<InternalRow> rows = execution.toRdd();
      return rows.toJavaRDD().mapPartitionsWithIndex(feed, false).collect();
    });
    return Arrays.deepToString(counts.toArray());
  }

  private static StructType renamed(StructType schema, List<String> names) {
    StructField[] fields = new StructField[schema.length()];
    for (int i = 0; i < fields.length; ++i) {
      fields[i] = schema.apply(i).copy(names.get(i), schema.apply(i).dataType(),
          schema.apply(i).nullable(), schema.apply(i).metadata());
    }
    return new StructType(fields);
  }
}
