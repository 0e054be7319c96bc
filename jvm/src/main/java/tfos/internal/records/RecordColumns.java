package tfos.internal.records;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Which columns records can hold, and as what. The table is in docs/tfrecords.md. Threads: any. */
public final class RecordColumns {
  /** The only column of records that are read as they are. */
  static final String BYTE_ARRAY_COLUMN = "byteArray";
  public static final StructType BYTE_ARRAY_TABLE =
      new StructType().add(BYTE_ARRAY_COLUMN, DataTypes.BinaryType);

  private RecordColumns() {}

  /**
   * Throws {@link IllegalArgumentException}, naming each column that such records can't hold and
   * what to do.
   *
   * @param action "written" or "read"
   */
  public static void check(StructType schema, String recordType, String action) {
    if (schema.isEmpty()) {
      throw new IllegalArgumentException(
          "a schema without columns can't be " + action + " as TFRecords");
    }
    Set<String> names = new HashSet<>();
    for (String name : schema.fieldNames()) {
      if (!names.add(name)) {
        throw new IllegalArgumentException("column " + name + " is there twice; rename one");
      }
    }
    if (recordType.equals(RecordOptions.BYTE_ARRAY)) {
      checkByteArray(schema);
      return;
    }
    List<String> refused = new ArrayList<>();
    for (StructField field : schema.fields()) {
      String advice = advice(field.dataType(), recordType, action);
      if (advice != null) {
        refused.add("column " + field.name() + " is " + field.dataType().simpleString() + ": "
            + advice);
      }
    }
    if (!refused.isEmpty()) {
      throw new IllegalArgumentException(
          "this can't be " + action + " as TFRecords: " + String.join("; ", refused));
    }
  }

  private static void checkByteArray(StructType schema) {
    DataType type = schema.fields()[0].dataType();
    if (schema.length() != 1 || !(type instanceof BinaryType || type instanceof StringType)) {
      throw new IllegalArgumentException("recordType ByteArray has one column, of binary or string, "
          + "and not " + schema.simpleString());
    }
  }

  /** What to do about a column of that type; null where it is well. */
  private static String advice(DataType type, String recordType, String action) {
    DataType element = type;
    int depth = 0;
    while (element instanceof ArrayType array) {
      element = array.elementType();
      depth++;
    }
    if (depth > 2) {
      return "arrays may be nested twice at most, flatten it";
    } else if (depth == 2 && !recordType.equals(RecordOptions.SEQUENCE_EXAMPLE)) {
      return "arrays of arrays need recordType SequenceExample; or flatten it";
    } else if (isVector(element)) {
      if (action.equals("read")) {
        return "declare array<float>, and use array_to_vector on it";
      }
      return depth == 0 ? null : "an array of vectors can't be, flatten it";
    } else if (element instanceof StringType || element instanceof BinaryType
        || element instanceof BooleanType || element instanceof NumericType) {
      return null;
    } else if (element instanceof DateType || element instanceof TimestampType
        || element instanceof TimestampNTZType) {
      return "cast it to a string, or to a number, as with unix_micros or unix_date";
    } else if (element instanceof StructType) {
      return "select its fields as columns, as in s.*";
    } else if (element instanceof MapType) {
      return "make an array of its keys and one of its values";
    }
    return "cast it to a number, a string or binary";
  }

  static boolean isVector(DataType type) {
    return type.equals(SQLDataTypes.VectorType());
  }

  /** As what the native codec has columns that {@link #check} passed. */
  static StructType codecTypes(StructType schema) {
    return new StructType(Arrays.stream(schema.fields())
        .map(field -> field.copy(field.name(), codecType(field.dataType()), field.nullable(),
            field.metadata()))
        .toArray(StructField[]::new));
  }

  private static DataType codecType(DataType type) {
    if (type instanceof ArrayType array) {
      return DataTypes.createArrayType(codecType(array.elementType()), array.containsNull());
    } else if (type instanceof DecimalType) {
      return DataTypes.DoubleType;
    } else if (isVector(type)) {
      return DataTypes.createArrayType(DataTypes.FloatType, false);
    }
    return type;
  }
}
