package tfos.internal.records.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import tfos.internal.base.Json;
import tfos.internal.columns.ColumnTypes;
import tfos.internal.columns.NativeColumn;
import tfos.internal.records.NativeRecords;
import tfos.internal.records.ReadPlan;
import tfos.internal.records.RecordColumns;
import tfos.internal.records.RecordFileWriter;
import tfos.internal.records.RecordIndexes;
import tfos.internal.records.RecordOptions;
import tfos.internal.records.WritePlan;
import tfos.internal.spark.ScalaCollections;
import tfos.internal.spark.Sql;

/**
 * The format {@code tfrecord} for Spark's readers and writers (docs/tfrecords.md).
 *
 * <p>A file format of Spark's first interface and not of the second one. There Spark lists, packs
 * and prunes files, commits what tasks wrote, and knows all save modes and partitionBy. To sources
 * of the second interface it refuses half of that.
 *
 * <p>Owner: Spark. Threads: any. Errors: {@link IllegalArgumentException} for options and columns
 * that don't fit, before anything runs.
 */
public final class TFRecordFormat implements FileFormat, DataSourceRegister, Serializable {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(TFRecordFormat.class);
  private static final long SAMPLE_RECORDS = 1_000;
  private static final String BAD_COLUMN_OPTION = "columnNameOfCorruptRecord";

  private transient RecordIndexes indexes;

  @Override
  public String shortName() {
    return "tfrecord";
  }

  @Override
  public String toString() {
    return shortName();
  }

  /** Plans that are otherwise equal are, which is how Spark finds what it has cached. */
  @Override
  public boolean equals(Object other) {
    return other instanceof TFRecordFormat;
  }

  @Override
  public int hashCode() {
    return TFRecordFormat.class.hashCode();
  }

  @Override
  public Option<StructType> inferSchema(SparkSession spark, Map<String, String> given,
      Seq<FileStatus> listed) {
    return inferSchema(spark, given, (scala.collection.Seq<FileStatus>) listed);
  }

  /** As Spark 3.5 calls it, whose Scala has another Seq. */
  public Option<StructType> inferSchema(SparkSession spark, Map<String, String> given,
      scala.collection.Seq<FileStatus> listed) {
    RecordOptions options = RecordOptions.forReading(given);
    ReadPlan plan = plan(spark, options);
    List<FileStatus> files = ScalaCollections.toJava(listed).stream()
        .filter(file -> !RecordIndexes.isIndex(file.getPath())).collect(Collectors.toList());
    if (files.isEmpty()) {
      throw new NoColumnsException(
          options.get(NamedPaths.OPTION, "the given paths")
              + ": there is no file to read in it");
    }
    StructType schema = plan.recordType().equals(RecordOptions.BYTE_ARRAY)
        ? RecordColumns.BYTE_ARRAY_TABLE
        : inferred(files, plan, options, Sql.hadoop(spark, given));
    if (options.has(BAD_COLUMN_OPTION)) {
      schema = schema.add(plan.badColumn(), DataTypes.BinaryType);
    }
    return Option.apply(schema);
  }

  private static StructType inferred(List<FileStatus> files, ReadPlan plan, RecordOptions options,
      Configuration hadoop) {
    long left = options.count("sampleRecords", SAMPLE_RECORDS);
    boolean onlySound = !plan.mode().equals(ReadPlan.FAIL_FAST);
    long inference =
        NativeRecords.newInference(plan.recordType(), options.flag("inferStrings", true));
    try {
      for (FileStatus status : files) {
        if (left == 0) {
          break;
        }
        Path file = status.getPath();
        try (InputStream stream = file.getFileSystem(hadoop).open(file)) {
          left -= NativeRecords.infer(inference, stream, file.toString(), plan.compressionOf(file),
              plan.validation(), left, onlySound);
        } catch (IOException error) {
          throw new UncheckedIOException("inferring columns of " + file, error);
        }
      }
      StructType found = ColumnTypes.tableOf(Json.parse(NativeRecords.inferred(inference)));
      if (found.isEmpty()) {
        throw new NoColumnsException(files.get(0).getPath()
            + (files.size() > 1 ? " and others" : "") + ": no record in it has a value, so its "
            + "columns can't be inferred; give them with schema(...)");
      }
      return found.asNullable();
    } finally {
      NativeRecords.deleteInference(inference);
    }
  }

  /** Without columns; its bad column is what it would be called. */
  private static ReadPlan plan(SparkSession spark, RecordOptions options) {
    String mode = options.mode();
    String recordType = options.recordType();
    boolean keeps =
        mode.equals(ReadPlan.PERMISSIVE) && !recordType.equals(RecordOptions.BYTE_ARRAY);
    if (options.has(BAD_COLUMN_OPTION) && !keeps) {
      throw new IllegalArgumentException(BAD_COLUMN_OPTION + " goes with mode permissive, and not "
          + "with recordType ByteArray");
    }
    if (options.has("maxPartitionBytes")) {
      options.count("maxPartitionBytes", 0);
      LOG.warn("the option maxPartitionBytes changes nothing where the jar reads TFRecords: set "
          + "spark.sql.files.maxPartitionBytes");
    }
    String bad = options.get(
        BAD_COLUMN_OPTION, spark.conf().get("spark.sql.columnNameOfCorruptRecord"));
    return new ReadPlan(recordType, options.compression(), mode,
        options.validation(), new StructType(), keeps ? bad : "");
  }

  @Override
  public boolean isSplitable(SparkSession spark, Map<String, String> given, Path file) {
    RecordOptions options = RecordOptions.forReading(given);
    String compression = options.compression();
    if (compression == null) {
      compression = RecordOptions.compressionOf(file);
    }
    return compression.isEmpty() && !RecordIndexes.isIndex(file)
        && indexes().hasIndex(file, () -> Sql.hadoop(spark, given));
  }

  private synchronized RecordIndexes indexes() {
    if (indexes == null) {
      indexes = new RecordIndexes();
    }
    return indexes;
  }

  @Override
  public boolean supportBatch(SparkSession spark, StructType schema) {
    return true;
  }

  @Override
  public Option<Seq<String>> vectorTypes(StructType required, StructType partitions,
      SQLConf conf) {
    List<String> types = new ArrayList<>(
        Collections.nCopies(required.length(), NativeColumn.class.getName()));
    types.addAll(Collections.nCopies(partitions.length(), ConstantColumnVector.class.getName()));
    return Option.apply(ScalaCollections.toScala(types));
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession spark, StructType data, StructType partitions, StructType required,
      Seq<Filter> filters, Map<String, String> given, Configuration hadoop) {
    return buildReaderWithPartitionValues(spark, data, partitions, required,
        (scala.collection.Seq<Filter>) filters, given, hadoop);
  }

  /** As Spark 3.5 calls it. */
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession spark, StructType data, StructType partitions, StructType required,
      scala.collection.Seq<Filter> filters, Map<String, String> given, Configuration hadoop) {
    ReadPlan plan = plan(spark, RecordOptions.forReading(given));
    String badColumn = Arrays.asList(data.fieldNames()).contains(plan.badColumn())
        ? plan.badColumn() : "";
    checkBadColumn(data, badColumn);
    StructType values = without(data, badColumn);
    if (!values.isEmpty()) {
      RecordColumns.check(values, plan.recordType(), "read");
    }
    // Whether a record is bad must not depend on the columns that a query uses.
    StructType columns =
        plan.mode().equals(ReadPlan.FAIL_FAST) ? without(required, badColumn) : values;
    StructType decoded =
        badColumn.isEmpty() ? columns : columns.add(badColumn, DataTypes.BinaryType);
    int[] wanted = Arrays.stream(required.fieldNames()).mapToInt(decoded::fieldIndex).toArray();
    BadRecords bad = new BadRecords();
    bad.register(spark.sparkContext(), Option.apply("tfrecord"), false);
    ReadPlan whole = new ReadPlan(plan.recordType(), plan.compression(), plan.mode(),
        plan.validation(), columns, badColumn);
    Broadcast<SerializableConfiguration> configuration = JavaSparkContext
        .fromSparkContext(spark.sparkContext()).broadcast(new SerializableConfiguration(hadoop));
    return new RecordScan(whole, decoded, wanted, partitions, configuration, bad);
  }

  private static void checkBadColumn(StructType data, String badColumn) {
    if (badColumn.isEmpty()) {
      return;
    }
    StructField field = data.apply(badColumn);
    if (!field.dataType().equals(DataTypes.BinaryType)) {
      throw new IllegalArgumentException("column " + badColumn + " takes bad records as they are, "
          + "so it must be binary that may be null, and not " + field.dataType().simpleString()
          + "; or give another name with the option " + BAD_COLUMN_OPTION);
    }
  }

  private static StructType without(StructType schema, String name) {
    return new StructType(Arrays.stream(schema.fields())
        .filter(field -> !field.name().equals(name)).toArray(StructField[]::new));
  }

  @Override
  public OutputWriterFactory prepareWrite(SparkSession spark, Job job, Map<String, String> options,
      StructType schema) {
    return new Writers(WritePlan.of(RecordOptions.forWriting(options), schema));
  }

  private static final class Writers extends OutputWriterFactory {
    private static final long serialVersionUID = 1;

    private final WritePlan plan;

    Writers(WritePlan plan) {
      this.plan = plan;
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
      return plan.extension();
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
      return new Writer(
          path, new RecordFileWriter(new Path(path), context.getConfiguration(), plan));
    }
  }

  private static final class Writer extends OutputWriter {
    private final String path;
    private final RecordFileWriter writer;

    Writer(String path, RecordFileWriter writer) {
      this.path = path;
      this.writer = writer;
    }

    @Override
    public void write(InternalRow row) {
      writer.write(row);
    }

    @Override
    public void close() {
      try {
        writer.close();
      } catch (IOException error) {
        throw new UncheckedIOException("writing " + path, error);
      }
    }

    @Override
    public String path() {
      return path;
    }
  }
}
