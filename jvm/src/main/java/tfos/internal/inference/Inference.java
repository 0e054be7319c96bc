package tfos.internal.inference;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import tfos.internal.base.Json;
import tfos.internal.columns.ColumnTypes;
import tfos.internal.spark.FrameRows;
import tfos.internal.spark.Sql;

/**
 * What a SavedModel makes of columns: what is behind the models of {@code tfos.ml} and {@code
 * com.yahoo.tensorflowonspark}.
 *
 * <p>Made on the driver, where all that can be checked is checked. Threads: any. Errors: {@link
 * IllegalArgumentException} with all that was expected and found.
 */
public final class Inference {
  /** As tfos.inference.plain_columns has it. */
  private static final Pattern ONE_ELEMENT = Pattern.compile("\\w+\\[(?:\\?|\\d+)((?:, 1)+)]");

  /** How columns go through a model. */
  public static final class Options {
    private final SavedModel.Source source;
    private final List<Input> inputs;
    private final Map<String, String> outputs;
    private final List<String> binary;
    private final int batchSize;
    private final boolean keep;
    private final boolean unwrap;

    /**
     * @param inputs empty: each input has the column of its name
     * @param outputs output -> column; empty: all, under their names
     * @param binary outputs whose strings are bytes
     * @param keep results have the columns that there were in front of the outputs
     * @param unwrap an output of one value a row, as of the shape [?, 1], becomes a plain value
     */
    public Options(SavedModel.Source source, List<Input> inputs, Map<String, String> outputs,
        List<String> binary, int batchSize, boolean keep, boolean unwrap) {
      this.source = source;
      this.inputs = inputs;
      this.outputs = outputs;
      this.binary = binary;
      this.batchSize = batchSize;
      this.keep = keep;
      this.unwrap = unwrap;
    }
  }

  /**
   * A column for an input; {@code splits} is "", or the input with the row splits of a ragged one.
   */
  public static final class Input {
    private final String column;
    private final String tensor;
    private final String splits;

    public Input(String column, String tensor, String splits) {
      this.column = column;
      this.tensor = tensor;
      this.splits = splits;
    }

    /** The inputs of a mapping from columns to inputs. */
    public static List<Input> listOf(Map<String, String> mapping) {
      return mapping.entrySet().stream()
          .map(entry -> new Input(entry.getKey(), entry.getValue(), ""))
          .collect(Collectors.toList());
    }
  }

  private final Options options;
  private final SavedModel model;
  private final String request;
  private final String[] columns;
  private final StructType outputs;
  private final int batchSize;
  /** Columns of one value in lists, which are to go, and how many these are. */
  private final Map<String, Integer> wrapped;
  private final StructType result;
  private final Configuration hadoop;

  /** For columns of that schema. */
  public Inference(SparkSession spark, StructType schema, Options options) {
    if (options.batchSize < 1) {
      throw new IllegalArgumentException(
          "batchSize is " + options.batchSize + "; it must be at least 1");
    }
    this.options = options;
    hadoop = Sql.hadoop(spark);
    model = SavedModel.read(options.source, hadoop);
    request = request(schema).toString();
    JsonNode plan;
    try {
      plan = Json.parse(NativeModel.plan(request));
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(model.path + ": " + error.getMessage(), error);
    }
    List<String> wanted = new ArrayList<>();
    plan.get("columns").forEach(name -> wanted.add(name.asText()));
    columns = wanted.toArray(String[]::new);
    outputs = ColumnTypes.tableOf(plan.get("results"));
    int fixedRows = plan.get("fixedRows").asInt();
    batchSize = fixedRows == 0 ? options.batchSize : fixedRows;
    wrapped = options.unwrap ? wrapped() : Map.of();
    result = joined(spark, options.keep ? schema : new StructType());
  }

  /** What the native side plans with. */
  private ObjectNode request(StructType schema) {
    ObjectNode request = Json.object();
    request.set("signature", Json.parse(model.signature));
    List<String> known = model.names("inputs");
    ArrayNode inputs = request.putArray("inputs");
    options.inputs.forEach(input -> {
      // A single column is the only input, whatever Keras has called that.
      boolean only = options.inputs.size() == 1 && known.size() == 1;
      String name = only ? known.get(0) : model.nameOf("inputs", input.tensor);
      inputs.addArray().add(input.column).add(name).add(input.splits);
    });
    ArrayNode asked = request.putArray("outputs");
    options.outputs.forEach((output, column) ->
        asked.addArray().add(model.nameOf("outputs", output)).add(column));
    ArrayNode binary = request.putArray("binary");
    options.binary.forEach(output -> binary.add(model.nameOf("outputs", output)));
    request.set("table", ColumnTypes.toJson(schema));
    return request;
  }

  private Map<String, Integer> wrapped() {
    Map<String, Integer> columns = new LinkedHashMap<>();
    for (JsonNode tensor : Json.parse(model.signature).get("outputs")) {
      String name = tensor.get("name").asText();
      Matcher shape = ONE_ELEMENT.matcher(tensor.get("type").asText());
      if (!shape.matches()) {
        continue;
      }
      int lists = shape.group(1).length() / ", 1".length();
      if (options.outputs.isEmpty()) {
        columns.put(name, lists);
      }
      options.outputs.forEach((output, column) -> {
        if (model.nameOf("outputs", output).equals(name)) {
          columns.put(column, lists);
        }
      });
    }
    return columns;
  }

  private StructType joined(SparkSession spark, StructType kept) {
    Set<String> taken = Arrays.stream(kept.fieldNames()).map(name -> Sql.compared(spark, name))
        .collect(Collectors.toSet());
    List<String> twice = Arrays.stream(outputs.fieldNames())
        .filter(name -> !taken.add(Sql.compared(spark, name))).collect(Collectors.toList());
    if (!twice.isEmpty()) {
      throw new IllegalArgumentException("column " + String.join(", ", twice)
          + " would appear twice: give the outputs of " + model.path
          + " other names in the output mapping; names that differ only in capital letters are "
          + "one to Spark, unless spark.sql.caseSensitive is set");
    }
    StructType all = kept;
    for (StructField field : outputs.fields()) {
      all = all.add(field);
    }
    return all;
  }

  /** The schema of what {@link #apply} gives. */
  public StructType schema() {
    StructType schema = new StructType();
    for (StructField field : result.fields()) {
      if (!wrapped.containsKey(field.name())) {
        schema = schema.add(field);
        continue;
      }
      DataType type = field.dataType();
      for (int lists = wrapped.get(field.name()); lists > 0; --lists) {
        type = ((ArrayType) type).elementType();
      }
      schema = schema.add(field.name(), type, true);
    }
    return schema;
  }

  /** A lazy DataFrame with a row for each row, in order. */
  public Dataset<Row> apply(Dataset<?> dataset) {
    SparkSession spark = dataset.sparkSession();
    Dataset<Row> rows = dataset.toDF();
    if (!options.keep) {
      rows = rows.select(Arrays.stream(columns).map(Sql::column).toArray(Column[]::new));
    }
    ModelTask task = new ModelTask(model, request, rows.schema(), columns, outputs,
        batchSize, options.keep, new SerializableConfiguration(hadoop));
    JavaRDD<InternalRow> results = new FrameRows(rows).toJavaRDD().mapPartitions(task);
    Dataset<Row> frame = Sql.frame(spark, results, result);
    for (Map.Entry<String, Integer> column : wrapped.entrySet()) {
      Column value = Sql.column(column.getKey());
      for (int lists = column.getValue(); lists > 0; --lists) {
        value = value.getItem(0);
      }
      frame = frame.withColumn(column.getKey(), value);
    }
    return frame;
  }
}
