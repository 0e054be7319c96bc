package com.yahoo.tensorflowonspark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Reads schema hints, {@code struct<name:type,...>}: what {@code StructType.simpleString} gives,
 * with any names, and {@code long} for {@code bigint}. Types are those of Spark SQL.
 */
public final class SimpleTypeParser {
  private static final String BEGIN = "struct<";

  private SimpleTypeParser() {}

  /** Errors: {@link IllegalArgumentException}, which says which part of the text isn't a type. */
  public static StructType parse(String simpleString) {
    String text = simpleString.strip();
    if (!text.startsWith(BEGIN) || !text.endsWith(">")) {
      throw bad(simpleString, "it does not begin with struct< and end with >");
    }
    StructType schema = new StructType();
    String fields = text.substring(BEGIN.length(), text.length() - 1);
    if (fields.isBlank()) {
      return schema;
    }
    for (String field : split(simpleString, fields)) {
      int colon = field.indexOf(':');
      if (colon < 0) {
        throw bad(simpleString, "'" + field + "' is not name:type");
      }
      String name = field.substring(0, colon).strip();
      if (name.isEmpty()) {
        throw bad(simpleString, "'" + field + "' has no name");
      }
      schema = schema.add(name, typeOf(simpleString, name, field.substring(colon + 1).strip()));
    }
    return schema;
  }

  /** At the commas outside of all brackets. */
  private static List<String> split(String whole, String fields) {
    List<String> parts = new ArrayList<>();
    int depth = 0;
    int begin = 0;
    for (int i = 0; i < fields.length(); i++) {
      char letter = fields.charAt(i);
      if (letter == '<' || letter == '(') {
        depth++;
      } else if (letter == '>' || letter == ')') {
        depth--;
      } else if (letter == ',' && depth == 0) {
        parts.add(fields.substring(begin, i).strip());
        begin = i + 1;
      }
    }
    if (depth != 0) {
      throw bad(whole, "its brackets don't match");
    }
    parts.add(fields.substring(begin).strip());
    return parts;
  }

  private static DataType typeOf(String whole, String name, String type) {
    if (type.startsWith(BEGIN)) {
      return parse(type);
    }
    try {
      return DataType.fromDDL(type);
    } catch (Exception error) { // Spark's ParseException, which Scala does not declare.
      throw bad(whole,
          "field " + name + " has the type '" + type + "', which Spark SQL does not know");
    }
  }

  private static IllegalArgumentException bad(String text, String what) {
    return new IllegalArgumentException("'" + text + "' is not a schema hint: " + what
        + ". One is struct<image:array<float>,label:long>");
  }
}
