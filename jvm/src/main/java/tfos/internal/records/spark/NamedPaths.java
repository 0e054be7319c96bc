package tfos.internal.records.spark;

import java.util.Set;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Tuple2;

/**
 * Gives the format the paths that a reader was asked for, for its messages: Spark tells a format
 * only which files it has found there. Spark 3.5 has no such rules, and messages there name no
 * paths. Threads: any.
 */
final class NamedPaths extends Rule<LogicalPlan> {
  /** An option with a dot, which no user sets by mistake. */
  static final String OPTION = "tfos.paths";
  private static final Set<String> FORMATS = Set.of("tfrecord", TFRecordFormat.class.getName());

  /** Before Spark makes a relation of what is read. */
  static void inject(SparkSessionExtensions extensions) {
    extensions.injectHintResolutionRule(session -> new NamedPaths());
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof UnresolvedDataSource)) {
      return plan;
    }
    UnresolvedDataSource source = (UnresolvedDataSource) plan;
    if (!FORMATS.contains(source.format()) || source.options().contains(OPTION)) {
      return plan;
    }
    return source.copy(source.format(), source.userSpecifiedSchema(),
        source.options().$plus(new Tuple2<>(OPTION, source.paths().mkString(", "))),
        source.isStreaming(), source.paths());
  }
}
