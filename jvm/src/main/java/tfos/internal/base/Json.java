package tfos.internal.base;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON text. Threads: any. Errors: {@link IllegalArgumentException} for text that is none. */
public final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  public static ObjectNode object() {
    return MAPPER.createObjectNode();
  }

  public static JsonNode parse(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("this is not JSON: " + text, error);
    }
  }

  /** The text of values that JSON has: strings, numbers, booleans, arrays, lists, maps. */
  public static String text(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("there is no JSON for " + value, error);
    }
  }

  /** An object whose values are all strings, in the order of the text. */
  public static Map<String, String> mapping(String text) {
    JsonNode json = parse(text);
    Map<String, String> result = new LinkedHashMap<>();
    json.fieldNames().forEachRemaining(name -> {
      if (json.get(name).isTextual()) {
        result.put(name, json.get(name).textValue());
      }
    });
    if (!json.isObject() || result.size() != json.size()) {
      throw new IllegalArgumentException(
          "a mapping is a JSON object of names, such as {\"column\": \"input\"}, and not " + text);
    }
    return result;
  }
}
