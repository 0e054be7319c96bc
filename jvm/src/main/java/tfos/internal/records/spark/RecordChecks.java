package tfos.internal.records.spark;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.DDLUtils;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.types.StructType;
import scala.runtime.BoxedUnit;
import tfos.internal.records.RecordOptions;
import tfos.internal.records.WritePlan;
import tfos.internal.spark.SparkVersions;

/**
 * Has every session of Spark refuse what records can't hold, and to overwrite what a query reads,
 * when the query is planned: by itself Spark notices only after it has deleted what was there. Also
 * has the format know which paths were asked for.
 *
 * <p>Owner: Spark, which finds it on the class path. Threads: any.
 */
public final class RecordChecks implements SparkSessionExtensionsProvider {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectCheckRule(session -> plan -> {
      check(plan);
      return BoxedUnit.UNIT;
    });
    if (SparkVersions.resolvesSourcesByRules()) {
      NamedPaths.inject(extensions);
    }
    return BoxedUnit.UNIT;
  }

  private static void check(LogicalPlan plan) {
    if (!(plan instanceof InsertIntoHadoopFsRelationCommand)) {
      return;
    }
    InsertIntoHadoopFsRelationCommand write = (InsertIntoHadoopFsRelationCommand) plan;
    if (write.fileFormat() instanceof TFRecordFormat) {
      WritePlan.of(RecordOptions.forWriting(write.options()), columns(write));
      if (write.mode() == SaveMode.Overwrite && !write.dynamicPartitionOverwrite()) {
        DDLUtils.verifyNotReadPath(write.query(), write.outputPath(), write.catalogTable());
      }
    }
  }

  /** Those that go into records, and not into names of directories. */
  private static StructType columns(InsertIntoHadoopFsRelationCommand write) {
    Set<Object> partitions = new HashSet<>();
    for (Attribute partition : SparkVersions.<Attribute>listOf(write, "partitionColumns")) {
      partitions.add(partition.exprId());
    }
    StructType columns = new StructType();
    for (Attribute column : SparkVersions.<Attribute>listOf(write, "outputColumns")) {
      if (!partitions.contains(column.exprId())) {
        columns = columns.add(column.name(), column.dataType(), column.nullable());
      }
    }
    return columns;
  }
}
