package tfos.internal.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** A column of booleans, as bits. */
final class BooleanWriter extends ColumnWriter {
  private final Memory values = new Memory();

  @Override
  protected void appendValue(SpecializedGetters from, int ordinal) {
    Bits.append(values, length, from.getBoolean(ordinal));
  }

  @Override
  protected void appendEmpty() {
    Bits.append(values, length, false);
  }

  @Override
  protected long[] buffers() {
    return new long[] {validity(), values.address()};
  }

  @Override
  public long bytes() {
    return length / 8;
  }

  @Override
  public void close() {
    super.close();
    values.close();
  }
}
