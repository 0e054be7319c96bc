package tfos.internal.inference;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import tfos.internal.base.Json;

/**
 * Runs DataFrames of Python programs through a SavedModel without a Python worker: what {@code
 * transform} of the driver's program calls (python/tfos/inference/jvm.py).
 */
public final class FrameInference {
  private FrameInference() {}

  /**
   * A lazy DataFrame of the results.
   *
   * @param request what {@code Inference.to_json} of python/tfos/inference/model.py makes
   * @param path of the model, as Hadoop has it
   * @param python whose TensorFlow it is, on every host
   */
  public static Dataset<Row> transform(Dataset<Row> frame, String request, String path,
      String python) {
    JsonNode json = Json.parse(request);
    SavedModel.Source source = new SavedModel.Source(path, json.get("tags").asText(),
        json.get("signature").asText(), texts(json.get("opLibraries")), python);
    List<Inference.Input> inputs = new ArrayList<>();
    for (JsonNode input : json.get("inputs")) {
      List<String> names = texts(input);
      inputs.add(new Inference.Input(names.get(0), names.get(1), names.get(2)));
    }
    Map<String, String> outputs = new LinkedHashMap<>();
    for (JsonNode output : json.get("outputs")) {
      List<String> names = texts(output);
      outputs.put(names.get(0), names.get(1));
    }
    Inference.Options options = new Inference.Options(source, inputs, outputs,
        texts(json.get("binary")), json.get("batchSize").asInt(), json.get("keep").asBoolean(),
        false);
    return new Inference(frame.sparkSession(), frame.schema(), options).apply(frame);
  }

  private static List<String> texts(JsonNode list) {
    List<String> texts = new ArrayList<>();
    list.forEach(text -> texts.add(text.asText()));
    return texts;
  }
}
