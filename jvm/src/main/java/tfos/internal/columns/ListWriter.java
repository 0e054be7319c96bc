package tfos.internal.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** A column of lists, whose elements are a column of their own. */
final class ListWriter extends OffsetWriter {
  private final ColumnWriter elements;

  ListWriter(ColumnWriter elements) {
    this.elements = elements;
  }

  @Override
  protected void appendValue(SpecializedGetters from, int ordinal) {
    ArrayData array = from.getArray(ordinal);
    int count = array.numElements();
    offset((long) elements.length + count);
    boolean taken =
        elements instanceof NumberWriter && ((NumberWriter) elements).appendAll(array);
    if (!taken) {
      for (int i = 0; i < count; i++) {
        elements.append(array, i);
      }
    }
    end(elements.length);
  }

  @Override
  protected void appendEmpty() {
    end(elements.length);
  }

  @Override
  protected int numbers() {
    return super.numbers() + elements.numbers();
  }

  @Override
  protected int describe(long[] to, int at) {
    return elements.describe(to, super.describe(to, at));
  }

  @Override
  protected long[] buffers() {
    return new long[] {validity(), offsets()};
  }

  @Override
  public long bytes() {
    return super.bytes() + elements.bytes();
  }

  @Override
  public void clear() {
    super.clear();
    elements.clear();
  }

  @Override
  public void close() {
    super.close();
    elements.close();
  }
}
