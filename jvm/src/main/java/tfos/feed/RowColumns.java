package tfos.feed;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;

/**
 * Rows of a DataFrame, gathered as columns that the native part reads where they are.
 *
 * <p>Owner and lifetime: owns its memory until {@link #close}. Threads: one.
 */
final class RowColumns implements AutoCloseable {
  private final Column[] columns;
  private final String type;
  private long rows = 0;

  /**
   * @param schema of types that {@code check_schema} of python/tfos/dataframe.py lets pass
   * @param names of the columns, in the rows that nodes get
   */
  RowColumns(StructType schema, List<String> names) {
    columns = new Column[schema.length()];
    ObjectNode batch = JsonNodeFactory.instance.objectNode();
    batch.put("name", "").put("format", "+s").put("nullable", false);
    var types = batch.putArray("children");
    for (int i = 0; i < columns.length; ++i) {
      columns[i] = columnOf(schema.apply(i).dataType());
      columns[i].describe(names.get(i), types.addObject());
    }
    type = batch.toString();
  }

  /** As src/jvm/column_layout.h has types of Arrow. */
  String type() {
    return type;
  }

  void append(InternalRow row) {
    for (int i = 0; i < columns.length; ++i) {
      columns[i].append(row, i);
    }
    ++rows;
  }

  long rows() {
    return rows;
  }

  long bytes() {
    long bytes = 0;
    for (Column column : columns) {
      bytes += column.bytes();
    }
    return bytes;
  }

  boolean hasNull() {
    for (Column column : columns) {
      if (column.hasNull()) {
        return true;
      }
    }
    return false;
  }

  /** Where the columns are now: the values of a batch, as src/jvm/column_layout.h has them. */
  long[] numbers() {
    LongStream.Builder numbers = LongStream.builder();
    numbers.add(rows).add(0).add(1).add(0);
    for (Column column : columns) {
      column.numbers(numbers);
    }
    return numbers.build().toArray();
  }

  void clear() {
    rows = 0;
    for (Column column : columns) {
      column.clear();
    }
  }

  @Override
  public void close() {
    for (Column column : columns) {
      if (column != null) {
        column.close();
      }
    }
  }

  private static Column columnOf(DataType type) {
    if (type instanceof BooleanType) {
      return new BooleanColumn();
    } else if (type instanceof ByteType) {
      return new NumberColumn("c", NumberColumn.Kind.BYTE);
    } else if (type instanceof ShortType) {
      return new NumberColumn("s", NumberColumn.Kind.SHORT);
    } else if (type instanceof IntegerType) {
      return new NumberColumn("i", NumberColumn.Kind.INT);
    } else if (type instanceof LongType) {
      return new NumberColumn("l", NumberColumn.Kind.LONG);
    } else if (type instanceof FloatType) {
      return new NumberColumn("f", NumberColumn.Kind.FLOAT);
    } else if (type instanceof DoubleType) {
      return new NumberColumn("g", NumberColumn.Kind.DOUBLE);
    } else if (type instanceof DateType) {
      return new NumberColumn("tdD", NumberColumn.Kind.INT);
    } else if (type instanceof TimestampType) {
      return new NumberColumn("tsu:UTC", NumberColumn.Kind.LONG);
    } else if (type instanceof TimestampNTZType) {
      return new NumberColumn("tsu:", NumberColumn.Kind.LONG);
    } else if (type instanceof DecimalType decimal) {
      return new DecimalColumn(decimal);
    } else if (type instanceof StringType || type instanceof BinaryType) {
      return new BytesColumn(type instanceof StringType);
    } else if (type instanceof ArrayType array) {
      return new ListColumn(columnOf(array.elementType()), true);
    } else if (type instanceof UserDefinedType<?>) {
      return new VectorColumn();
    }
    throw new IllegalArgumentException("a column of " + type.simpleString() + " cannot be fed");
  }
}
