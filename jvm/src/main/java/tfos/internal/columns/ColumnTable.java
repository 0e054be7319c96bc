package tfos.internal.columns;

import java.util.Arrays;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Rows as columns, of which some are wanted.
 *
 * <p>Owner and lifetime, threads, errors: as {@link ColumnWriter}.
 */
public final class ColumnTable extends StructWriter {
  private final int[] ordinals;

  public ColumnTable(StructType schema) {
    this(schema, other -> null);
  }

  public ColumnTable(StructType schema, Function<DataType, ColumnWriter> own) {
    super(schema, own);
    ordinals = IntStream.range(0, schema.length()).toArray();
  }

  public ColumnTable(StructType schema, String[] columns) {
    super(only(schema, columns), other -> null);
    ordinals = Arrays.stream(columns).mapToInt(schema::fieldIndex).toArray();
  }

  private static StructType only(StructType schema, String[] columns) {
    return new StructType(
        Arrays.stream(columns).map(schema::apply).toArray(StructField[]::new));
  }

  public void append(InternalRow row) {
    for (int i = 0; i < children.length; i++) {
      children[i].append(row, ordinals[i]);
    }
    length++;
  }

  public int rows() {
    return length;
  }

  /** The numbers of all columns (src/jvm/column_layout.h), until the next change. */
  public long[] describe() {
    long[] numbers = new long[numbers()];
    describe(numbers, 0);
    return numbers;
  }
}
