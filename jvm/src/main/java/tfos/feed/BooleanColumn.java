package tfos.feed;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.unsafe.Platform;

/** Booleans, a bit each. */
final class BooleanColumn extends Column {
  private final Memory bits = new Memory();
  private final Memory[] buffers = {bits};

  BooleanColumn() {
    super("b");
  }

  @Override
  Memory[] buffers() {
    return buffers;
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    put(from.getBoolean(ordinal) ? 1 : 0);
  }

  @Override
  void writeZero() {
    put(0);
  }

  private void put(int bit) {
    int place = (int) (length() % Byte.SIZE);
    if (place == 0) {
      Platform.putByte(null, bits.append(1), (byte) bit);
      return;
    }
    long last = bits.address() + bits.size() - 1;
    Platform.putByte(null, last, (byte) (Platform.getByte(null, last) | bit << place));
  }
}
