package tfos.feed;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.unsafe.Platform;

/** Arrays. */
final class ListColumn extends Column {
  private final Column elements;
  private final boolean wide;
  private final Memory offsets = new Memory();
  private final Memory[] buffers = {offsets};

  /** @param wide whether where lists begin has 64 bits; 32 are for types whose layout is given */
  ListColumn(Column elements, boolean wide) {
    super(wide ? "+L" : "+l", elements);
    this.elements = elements;
    this.wide = wide;
    begin();
  }

  @Override
  Memory[] buffers() {
    return buffers;
  }

  @Override
  void begin() {
    putOffset(0);
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    elements.appendAll(from.getArray(ordinal));
    putOffset(elements.length());
  }

  @Override
  void writeZero() {
    putOffset(elements.length());
  }

  private void putOffset(long offset) {
    if (wide) {
      Platform.putLong(null, offsets.append(Long.BYTES), offset);
    } else {
      Platform.putInt(null, offsets.append(Integer.BYTES), Math.toIntExact(offset));
    }
  }
}
