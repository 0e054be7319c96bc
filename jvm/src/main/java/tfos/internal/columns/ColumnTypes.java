package tfos.internal.columns;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import tfos.internal.base.Json;

/**
 * Types of columns as they cross to native code and back: JSON with Arrow's formats, see
 * src/jvm/column_layout.h. Threads: any.
 */
public final class ColumnTypes {
  /** What both sides have, with Arrow's format. */
  private enum Simple {
    BOOLEAN(DataTypes.BooleanType, "b"),
    BYTE(DataTypes.ByteType, "c"),
    SHORT(DataTypes.ShortType, "s"),
    INT(DataTypes.IntegerType, "i"),
    LONG(DataTypes.LongType, "l"),
    FLOAT(DataTypes.FloatType, "f"),
    DOUBLE(DataTypes.DoubleType, "g"),
    STRING(DataTypes.StringType, "u"),
    BINARY(DataTypes.BinaryType, "z");

    private final DataType type;
    private final String format;

    Simple(DataType type, String format) {
      this.type = type;
      this.format = format;
    }
  }

  private ColumnTypes() {}

  public static ObjectNode toJson(StructType table) {
    return toJson("", table, false);
  }

  private static ObjectNode toJson(String name, DataType type, boolean nullable) {
    ObjectNode json = Json.object().put("name", name).put("nullable", nullable);
    ArrayNode children = json.putArray("children");
    if (type instanceof ArrayType) {
      ArrayType array = (ArrayType) type;
      json.put("format", "+l");
      children.add(toJson("item", array.elementType(), array.containsNull()));
    } else if (type instanceof StructType) {
      json.put("format", "+s");
      for (StructField field : ((StructType) type).fields()) {
        children.add(toJson(field.name(), field.dataType(), field.nullable()));
      }
    } else if (type instanceof UserDefinedType) {
      return toJson(name, ((UserDefinedType<?>) type).sqlType(), nullable);
    } else {
      json.put("format", formatOf(type));
    }
    return json;
  }

  /** The format of a type; its name if it has none, which native code says it does not know. */
  private static String formatOf(DataType type) {
    if (type instanceof DateType) {
      return "tdD";
    } else if (type instanceof TimestampType) {
      return "tsu:UTC";
    } else if (type instanceof TimestampNTZType) {
      return "tsu:";
    } else if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return "d:" + decimal.precision() + "," + decimal.scale();
    } else if (type instanceof StringType) {
      return Simple.STRING.format; // With a collation or a limit, too.
    }
    for (Simple simple : Simple.values()) {
      if (simple.type.equals(type)) {
        return simple.format;
      }
    }
    return type.simpleString();
  }

  /** The table that native code has described. */
  public static StructType tableOf(JsonNode json) {
    return (StructType) typeOf(json);
  }

  private static DataType typeOf(JsonNode json) {
    String format = json.get("format").asText();
    JsonNode children = json.get("children");
    if (format.equals("+l")) {
      JsonNode element = children.get(0);
      return DataTypes.createArrayType(typeOf(element), element.get("nullable").asBoolean());
    } else if (format.equals("+s")) {
      StructField[] fields = new StructField[children.size()];
      for (int i = 0; i < fields.length; i++) {
        JsonNode child = children.get(i);
        fields[i] = DataTypes.createStructField(child.get("name").asText(), typeOf(child),
            child.get("nullable").asBoolean());
      }
      return DataTypes.createStructType(fields);
    }
    for (Simple simple : Simple.values()) {
      if (simple.format.equals(format)) {
        return simple.type;
      }
    }
    throw new IllegalStateException("native code gave a column of the Arrow type '" + format + "'");
  }
}
