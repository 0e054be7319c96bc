package tfos.internal.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/** A column of numbers, or of dates and times, which Spark keeps as numbers. */
final class NumberWriter extends FixedWidthWriter {
  enum Kind {
    BYTE(1), SHORT(2), INT(4), LONG(8), FLOAT(4), DOUBLE(8);

    private final int width;

    Kind(int width) {
      this.width = width;
    }
  }

  private final Kind kind;

  NumberWriter(Kind kind) {
    super(kind.width);
    this.kind = kind;
  }

  @Override
  protected void appendValue(SpecializedGetters from, int ordinal) {
    long at = place();
    switch (kind) {
      case BYTE:
        Platform.putByte(null, at, from.getByte(ordinal));
        break;
      case SHORT:
        Platform.putShort(null, at, from.getShort(ordinal));
        break;
      case INT:
        Platform.putInt(null, at, from.getInt(ordinal));
        break;
      case LONG:
        Platform.putLong(null, at, from.getLong(ordinal));
        break;
      case FLOAT:
        Platform.putFloat(null, at, from.getFloat(ordinal));
        break;
      case DOUBLE:
        Platform.putDouble(null, at, from.getDouble(ordinal));
        break;
      default:
        throw new IllegalStateException(kind.name());
    }
  }

  /** All numbers of an array at once, which Spark keeps as native code wants them. */
  boolean appendAll(ArrayData array) {
    if (!(array instanceof UnsafeArrayData)) {
      return false;
    }
    UnsafeArrayData numbers = (UnsafeArrayData) array;
    if (hasNulls(numbers)) {
      return false;
    }
    int count = numbers.numElements();
    long bytes = (long) count * kind.width;
    Platform.copyMemory(numbers.getBaseObject(),
        numbers.getBaseOffset() + UnsafeArrayData.calculateHeaderPortionInBytes(count), null,
        places(count), bytes);
    markValid(count);
    length += count;
    return true;
  }

  private static boolean hasNulls(UnsafeArrayData array) {
    long bitmap = array.getBaseOffset() + Long.BYTES;
    long end = array.getBaseOffset()
        + UnsafeArrayData.calculateHeaderPortionInBytes(array.numElements());
    for (long at = bitmap; at < end; at += Long.BYTES) {
      if (Platform.getLong(array.getBaseObject(), at) != 0) {
        return true;
      }
    }
    return false;
  }
}
