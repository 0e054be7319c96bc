package tfos.feed;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Text or binary values. */
final class BytesColumn extends Column {
  private final boolean text;
  private final Memory offsets = new Memory();
  private final Memory data = new Memory();
  private final Memory[] buffers = {offsets, data};

  BytesColumn(boolean text) {
    super(text ? "U" : "Z");
    this.text = text;
    begin();
  }

  @Override
  Memory[] buffers() {
    return buffers;
  }

  @Override
  void begin() {
    Platform.putLong(null, offsets.append(Long.BYTES), 0);
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    if (from instanceof UnsafeRow row) {
      // Its field holds where in the row the bytes are and how many: no copy on the heap.
      long place = row.getLong(ordinal);
      put(row.getBaseObject(), row.getBaseOffset() + (place >>> 32), (int) place);
    } else if (text) {
      UTF8String value = from.getUTF8String(ordinal);
      put(value.getBaseObject(), value.getBaseOffset(), value.numBytes());
    } else {
      byte[] value = from.getBinary(ordinal);
      put(value, Platform.BYTE_ARRAY_OFFSET, value.length);
    }
  }

  @Override
  void writeZero() {
    endValue();
  }

  private void put(Object base, long offset, int bytes) {
    Platform.copyMemory(base, offset, null, data.append(bytes), bytes);
    endValue();
  }

  private void endValue() {
    Platform.putLong(null, offsets.append(Long.BYTES), data.size());
  }
}
