package tfos.internal;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/**
 * What a SavedModel makes of columns: what is behind the models of {@code tfos.ml} and {@code
 * com.yahoo.tensorflowonspark}.
 *
 * <p>Made on the driver, where all that can be checked is checked. Threads: any. Errors: {@link
 * IllegalArgumentException} with all that was expected and found.
 */
public final class Inference {
  /**
   * How columns go through a model.
   *
   * @param inputs column -> input; empty: each input has the column of its name
   * @param outputs output -> column; empty: all, under their names
   * @param binary outputs whose strings are bytes
   * @param keep results have the columns that there were in front of the outputs
   */
  public record Options(String path, String tags, String signature, Map<String, String> inputs,
      Map<String, String> outputs, List<String> binary, int batchSize, boolean keep) {}

  private final Options options;
  private final SavedModel model;
  private final String request;
  private final String[] columns;
  private final StructType outputs;
  private final StructType result;
  private final Configuration hadoop;

  /** For columns of that schema. */
  public Inference(SparkSession spark, StructType schema, Options options) {
    if (options.batchSize < 1) {
      throw new IllegalArgumentException(
          "batchSize is " + options.batchSize + "; it has to be at least 1");
    }
    this.options = options;
    hadoop = Sql.hadoop(spark);
    model = SavedModel.read(options.path, options.tags, options.signature, hadoop);
    JsonNode signature = Json.parse(model.signature);
    ObjectNode asked = Json.object();
    asked.set("signature", signature);
    ArrayNode inputs = asked.putArray("inputs");
    options.inputs.forEach((column, input) ->
        inputs.addArray().add(column).add(model.nameOf("inputs", input)).add(""));
    ArrayNode outputs = asked.putArray("outputs");
    options.outputs.forEach((output, column) ->
        outputs.addArray().add(model.nameOf("outputs", output)).add(column));
    ArrayNode binary = asked.putArray("binary");
    options.binary.forEach(binary::add);
    asked.set("table", ColumnTypes.toJson(schema));
    request = asked.toString();
    JsonNode plan;
    try {
      plan = Json.parse(NativeModel.plan(request));
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(model.path + ": " + error.getMessage(), error);
    }
    List<String> wanted = new ArrayList<>();
    plan.get("columns").forEach(name -> wanted.add(name.asText()));
    columns = wanted.toArray(String[]::new);
    this.outputs = ColumnTypes.tableOf(plan.get("results"));
    result = options.keep ? joined(schema, this.outputs) : this.outputs;
  }

  private StructType joined(StructType schema, StructType added) {
    TreeSet<String> twice = new TreeSet<>(Arrays.asList(schema.fieldNames()));
    twice.retainAll(Arrays.asList(added.fieldNames()));
    if (!twice.isEmpty()) {
      throw new IllegalArgumentException("column " + String.join(", ", twice)
          + " would be there twice: give the outputs of " + model.path
          + " other names in the output mapping");
    }
    StructType all = schema;
    for (StructField field : added.fields()) {
      all = all.add(field);
    }
    return all;
  }

  /** Of what {@link #apply} gives. */
  public StructType schema() {
    return result;
  }

  /** A lazy DataFrame with a row for each row, in order. */
  public Dataset<Row> apply(Dataset<?> dataset) {
    SparkSession spark = dataset.sparkSession();
    Dataset<Row> rows = dataset.toDF();
    if (!options.keep) {
      rows = rows.select(Arrays.stream(columns)
          .map(name -> functions.col("`" + name.replace("`", "``") + "`"))
          .toArray(org.apache.spark.sql.Column[]::new));
    }
    ModelTask task = new ModelTask(model, request, rows.schema(), columns, outputs,
        options.batchSize, options.keep, new SerializableConfiguration(hadoop));
    JavaRDD<InternalRow> results = Sql.rows(rows).mapPartitions(task);
    return Sql.frame(spark, results, result);
  }
}
