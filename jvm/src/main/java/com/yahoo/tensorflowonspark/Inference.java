package com.yahoo.tensorflowonspark;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import tfos.internal.base.Json;

/** A program that runs TFRecords through a SavedModel and writes the outputs as lines of JSON. */
public final class Inference {
  private static final String USAGE = String.join("\n",
      "usage: spark-submit --class com.yahoo.tensorflowonspark.Inference tfos_2.13.jar OPTIONS",
      "  --export_dir DIR           the SavedModel",
      "  --input PATH               TFRecords of tf.Examples",
      "  --output DIR               where the outputs go, which there must not be yet",
      "  --output_mapping JSON      output of the model -> column, as {\"logits\": \"score\"}",
      "  --input_mapping JSON       column -> input of the model; else each input has its name's",
      "  --schema_hint STRUCT       types of columns, as struct<image:array<float>,label:long>",
      "  --verbose                  show the columns and the first rows of the input");
  private static final List<String> OPTIONS = List.of("--export_dir", "--input", "--output",
      "--output_mapping", "--input_mapping", "--schema_hint");

  private Inference() {}

  public static void main(String[] args) {
    SparkSession spark = SparkSession.builder().appName("Inference").getOrCreate();
    try {
      run(spark, args);
    } finally {
      spark.stop();
    }
  }

  /** The program, in a session that goes on. */
  public static void run(SparkSession spark, String[] args) {
    Map<String, String> options = parse(args);
    StructType hint = options.containsKey("--schema_hint")
        ? SimpleTypeParser.parse(options.get("--schema_hint")) : new StructType();
    Dataset<Row> frame = tfos.TFRecords.load(spark, options.get("--input"), hint);
    if (options.containsKey("--verbose")) {
      frame.printSchema();
      frame.show();
    }
    new TFModel().setModel(options.get("--export_dir"))
        .setInputMapping(Json.mapping(options.getOrDefault("--input_mapping", "{}")))
        .setOutputMapping(Json.mapping(options.get("--output_mapping")))
        .transform(frame).write().json(options.get("--output"));
  }

  private static Map<String, String> parse(String[] args) {
    Map<String, String> options = new TreeMap<>();
    for (int i = 0; i < args.length; i++) {
      String[] option = args[i].split("=", 2);
      if (option[0].equals("--verbose") && option.length == 1) {
        options.put(option[0], "");
      } else if (!OPTIONS.contains(option[0])) {
        throw bad("there is no option " + option[0]);
      } else if (option.length == 2) {
        options.put(option[0], option[1]);
      } else if (++i < args.length) {
        options.put(option[0], args[i]);
      } else {
        throw bad(option[0] + " has no value");
      }
    }
    for (String needed : List.of("--export_dir", "--input", "--output", "--output_mapping")) {
      if (!options.containsKey(needed)) {
        throw bad(needed + " is missing");
      }
    }
    return options;
  }

  private static IllegalArgumentException bad(String what) {
    return new IllegalArgumentException(what + "\n" + USAGE);
  }
}
