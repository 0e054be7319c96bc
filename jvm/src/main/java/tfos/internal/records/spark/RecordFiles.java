package tfos.internal.records.spark;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What is behind {@link tfos.TFRecords}. */
public final class RecordFiles {
  private static final String FORMAT = TFRecordFormat.class.getName();

  private RecordFiles() {}

  public static Dataset<Row> load(SparkSession spark, String path, StructType hint) {
    // A comma in braces separates parts of a pattern.
    String[] paths = path.split(",(?![^{]*\\})");
    StructType schema = merged(hint, inferred(spark, paths, hint));
    return reader(spark).schema(schema).load(paths);
  }

  /** Without columns where nothing tells any, if there is a hint. */
  private static StructType inferred(SparkSession spark, String[] paths, StructType hint) {
    try {
      return reader(spark).load(paths).schema();
    } catch (NoColumnsException error) {
      if (hint.isEmpty()) {
        throw error;
      }
      return new StructType();
    }
  }

  /** Names of directories mean nothing. */
  private static DataFrameReader reader(SparkSession spark) {
    return spark.read().format(FORMAT).option("recursiveFileLookup", true);
  }

  /** Any value may be missing in records that the sample has not. */
  private static StructType merged(StructType hint, StructType inferred) {
    Set<String> hinted = new HashSet<>(Arrays.asList(hint.fieldNames()));
    StructType schema = hint;
    for (StructField field : inferred.fields()) {
      if (!hinted.contains(field.name())) {
        schema = schema.add(field.name(), field.dataType(), true);
      }
    }
    return schema;
  }

  public static void save(Dataset<?> frame, String path) {
    frame.write().format(FORMAT).mode(SaveMode.ErrorIfExists).save(path);
  }
}
