package tfos.internal.columns;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A column of structs: a column for each field. */
class StructWriter extends ColumnWriter {
  protected final ColumnWriter[] children;

  StructWriter(StructType type, Function<DataType, ColumnWriter> own) {
    StructField[] fields = type.fields();
    children = new ColumnWriter[fields.length];
    for (int i = 0; i < fields.length; i++) {
      children[i] = of(fields[i].dataType(), own);
    }
  }

  @Override
  protected void appendValue(SpecializedGetters from, int ordinal) {
    InternalRow struct = from.getStruct(ordinal, children.length);
    for (int i = 0; i < children.length; i++) {
      children[i].append(struct, i);
    }
  }

  @Override
  protected void appendEmpty() {
    for (ColumnWriter child : children) {
      child.appendNull();
    }
  }

  @Override
  protected int numbers() {
    int count = super.numbers();
    for (ColumnWriter child : children) {
      count += child.numbers();
    }
    return count;
  }

  @Override
  protected int describe(long[] to, int at) {
    at = super.describe(to, at);
    for (ColumnWriter child : children) {
      at = child.describe(to, at);
    }
    return at;
  }

  @Override
  protected long[] buffers() {
    return new long[] {validity()};
  }

  @Override
  public long bytes() {
    long sum = 0;
    for (ColumnWriter child : children) {
      sum += child.bytes();
    }
    return sum;
  }

  @Override
  public void clear() {
    super.clear();
    for (ColumnWriter child : children) {
      child.clear();
    }
  }

  @Override
  public void close() {
    super.close();
    for (ColumnWriter child : children) {
      child.close();
    }
  }
}
