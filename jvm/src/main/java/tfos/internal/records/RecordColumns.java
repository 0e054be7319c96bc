package tfos.internal.records;

import java.util.Arrays;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

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
    RecordRules.check(schema.json(), recordType, action.equals("written"));
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
    if (type instanceof ArrayType) {
      ArrayType array = (ArrayType) type;
      return DataTypes.createArrayType(codecType(array.elementType()), array.containsNull());
    } else if (type instanceof DecimalType) {
      return DataTypes.DoubleType;
    } else if (isVector(type)) {
      return DataTypes.createArrayType(DataTypes.FloatType, false);
    }
    return type;
  }
}
