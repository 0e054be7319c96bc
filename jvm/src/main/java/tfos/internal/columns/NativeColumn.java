package tfos.internal.columns;

import java.math.BigDecimal;
import java.math.RoundingMode;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of Arrow in memory of native code, as Spark reads columns.
 *
 * <p>Public for the code that Spark generates. Owner and lifetime: refers to memory of {@link
 * NativeColumns}, which it keeps from being collected. Threads: any may read.
 */
public final class NativeColumn extends ColumnVector {
  /** The numbers that describe columns, taken off one after the other. */
  static final class Numbers {
    private final long[] numbers;
    private int next;

    Numbers(long[] numbers, int begin) {
      this.numbers = numbers;
      this.next = begin;
    }

    long take() {
      return numbers[next++];
    }
  }

  private final int length;
  private final int nulls;
  private final long validity;
  /** Numbers, bits, or offsets. */
  private final long values;
  /** What the offsets of strings point into. */
  private final long data;
  private final NativeColumn[] children;
  /** Is reachable as long as any of its columns is. */
  private final NativeColumns owner;

  NativeColumn(DataType type, Numbers numbers, NativeColumns owner) {
    super(type);
    this.owner = owner;
    length = Math.toIntExact(numbers.take());
    nulls = Math.toIntExact(numbers.take());
    int buffers = Math.toIntExact(numbers.take());
    long[] addresses = new long[3];
    for (int i = 0; i < buffers; i++) {
      addresses[i] = numbers.take();
    }
    validity = addresses[0];
    values = addresses[1];
    data = addresses[2];
    if (type instanceof ArrayType) {
      ArrayType array = (ArrayType) type;
      children = new NativeColumn[] {new NativeColumn(array.elementType(), numbers, owner)};
    } else if (type instanceof StructType) {
      StructType struct = (StructType) type;
      children = new NativeColumn[struct.length()];
      for (int i = 0; i < children.length; i++) {
        children[i] = new NativeColumn(struct.fields()[i].dataType(), numbers, owner);
      }
    } else {
      children = new NativeColumn[0];
    }
  }

  NativeColumn[] children() {
    return children;
  }

  int length() {
    return length;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls != 0 && !Bits.get(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return Bits.get(values, row);
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, values + (long) row * Short.BYTES);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + (long) row * Integer.BYTES);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + (long) row * Long.BYTES);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, values + (long) row * Float.BYTES);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + (long) row * Double.BYTES);
  }

  @Override
  public ColumnarArray getArray(int row) {
    int begin = getInt(row);
    return new ColumnarArray(children[0], begin, getInt(row + 1) - begin);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    int begin = getInt(row);
    return UTF8String.fromAddress(null, data + begin, getInt(row + 1) - begin);
  }

  @Override
  public byte[] getBinary(int row) {
    int begin = getInt(row);
    byte[] bytes = new byte[getInt(row + 1) - begin];
    Platform.copyMemory(null, data + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("native code makes no maps");
  }

  /** Native code makes doubles of them. */
  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    double value = getDouble(row);
    if (Double.isFinite(value)) {
      BigDecimal rounded = new BigDecimal(value).setScale(scale, RoundingMode.HALF_UP);
      if (rounded.precision() <= precision) {
        return Decimal.apply(rounded, precision, scale);
      }
    }
    throw new IllegalArgumentException(
        value + " does not fit into decimal(" + precision + "," + scale + ")");
  }
}
