package tfos.feed;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/** Numbers that Spark and Arrow have in the same bytes: all but booleans and decimals. */
final class NumberColumn extends Column {
  /** How Spark gets at a number. */
  enum Kind {
    BYTE(1), SHORT(2), INT(4), LONG(8), FLOAT(4), DOUBLE(8);

    final int bytes;

    Kind(int bytes) {
      this.bytes = bytes;
    }
  }

  private final Kind kind;
  private final Memory values = new Memory();
  private final Memory[] buffers = {values};

  NumberColumn(String format, Kind kind) {
    super(format);
    this.kind = kind;
  }

  @Override
  Memory[] buffers() {
    return buffers;
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    long at = values.append(kind.bytes);
    switch (kind) {
      case BYTE -> Platform.putByte(null, at, from.getByte(ordinal));
      case SHORT -> Platform.putShort(null, at, from.getShort(ordinal));
      case INT -> Platform.putInt(null, at, from.getInt(ordinal));
      case LONG -> Platform.putLong(null, at, from.getLong(ordinal));
      case FLOAT -> Platform.putFloat(null, at, from.getFloat(ordinal));
      case DOUBLE -> Platform.putDouble(null, at, from.getDouble(ordinal));
    }
  }

  @Override
  void writeZero() {
    Platform.setMemory(values.append(kind.bytes), (byte) 0, kind.bytes);
  }

  @Override
  boolean writeAll(ArrayData array, int count) {
    if (!(array instanceof UnsafeArrayData unsafe) || hasNulls(unsafe, count)) {
      return false;
    }
    long bytes = (long) count * kind.bytes;
    long first = unsafe.getBaseOffset() + UnsafeArrayData.calculateHeaderPortionInBytes(count);
    Platform.copyMemory(unsafe.getBaseObject(), first, null, values.append(bytes), bytes);
    return true;
  }

  /** The header has the number of elements and then a bit for each, in whole words. */
  private static boolean hasNulls(UnsafeArrayData array, int count) {
    long end = UnsafeArrayData.calculateHeaderPortionInBytes(count);
    for (long word = Long.BYTES; word < end; word += Long.BYTES) {
      if (Platform.getLong(array.getBaseObject(), array.getBaseOffset() + word) != 0) {
        return true;
      }
    }
    return false;
  }
}
