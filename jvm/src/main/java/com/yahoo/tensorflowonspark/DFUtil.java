package com.yahoo.tensorflowonspark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import tfos.TFRecords;

/** TFRecords and DataFrames, as programs of tensorflowonspark convert them. */
public final class DFUtil {
  private DFUtil() {}

  /** {@link TFRecords#load(SparkSession, String)} in the active session. */
  public static Dataset<Row> loadTFRecords(String inputDir) {
    return loadTFRecords(inputDir, new StructType());
  }

  /** {@link TFRecords#load(SparkSession, String, StructType)} in the active session. */
  public static Dataset<Row> loadTFRecords(String inputDir, StructType schemaHint) {
    return TFRecords.load(SparkSession.active(), inputDir, schemaHint);
  }

  /** {@link TFRecords#save}. */
  public static void saveAsTFRecords(Dataset<Row> df, String outputDir) {
    TFRecords.save(df, outputDir);
  }
}
