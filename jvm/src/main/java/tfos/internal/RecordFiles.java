package tfos.internal;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** What is behind {@link tfos.TFRecords}. */
public final class RecordFiles {
  /** Of all files together, as in Python. */
  private static final long SAMPLE_RECORDS = 1_000;

  private RecordFiles() {}

  public static Dataset<Row> load(SparkSession spark, String path, StructType hint) {
    try {
      Job job = Job.getInstance(Sql.hadoop(spark));
      FileInputFormat.setInputPaths(job, path);
      FileInputFormat.setInputDirRecursive(job, true);
      Configuration hadoop = job.getConfiguration();
      StructType schema = merged(hint, inferred(new TFRecordInputFormat().listStatus(job), hadoop));
      if (schema.isEmpty()) {
        throw new IllegalArgumentException(
            path + ": no record in it has a value, so it has no columns; give a schema hint");
      }
      NativeRecords.check(ColumnTypes.toJson(schema).toString());
      TFRecordInputFormat.setSchema(hadoop, schema);
      JavaRDD<InternalRow> rows = JavaSparkContext.fromSparkContext(spark.sparkContext())
          .newAPIHadoopRDD(hadoop, TFRecordInputFormat.class, NullWritable.class, InternalRow.class)
          .values();
      return Sql.frame(spark, rows, schema);
    } catch (IOException error) {
      throw new UncheckedIOException("loading TFRecords of " + path, error);
    }
  }

  private static StructType inferred(List<FileStatus> files, Configuration hadoop)
      throws IOException {
    long inference = NativeRecords.newInference();
    try {
      long left = SAMPLE_RECORDS;
      for (FileStatus status : files) {
        if (left == 0) {
          break;
        }
        Path file = status.getPath();
        try (InputStream stream = file.getFileSystem(hadoop).open(file)) {
          left -= NativeRecords.infer(inference, stream, file.toString(),
              TFRecordInputFormat.compressionOf(file), left);
        }
      }
      return ColumnTypes.tableOf(Json.parse(NativeRecords.inferred(inference)));
    } finally {
      NativeRecords.deleteInference(inference);
    }
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
    Dataset<Row> writable = writable(frame);
    NativeRecords.check(ColumnTypes.toJson(writable.schema()).toString());
    Configuration hadoop = Sql.hadoop(frame.sparkSession());
    TFRecordInputFormat.setSchema(hadoop, writable.schema());
    Sql.rows(writable).mapToPair(row -> new Tuple2<>(NullWritable.get(), row))
        .saveAsNewAPIHadoopFile(path, NullWritable.class, InternalRow.class,
            TFRecordOutputFormat.class, hadoop);
  }

  /** Vectors of Spark ML as arrays and decimals as doubles, which records can hold. */
  private static Dataset<Row> writable(Dataset<?> frame) {
    Column[] columns = Arrays.stream(frame.schema().fields()).map(field -> {
      Column column = Sql.column(field.name());
      DataType type = field.dataType();
      if (type.equals(SQLDataTypes.VectorType())) {
        return org.apache.spark.ml.functions.vector_to_array(column, "float32").as(field.name());
      } else if (type instanceof DecimalType) {
        return column.cast("double").as(field.name());
      }
      return column;
    }).toArray(Column[]::new);
    return frame.toDF().select(columns);
  }
}
