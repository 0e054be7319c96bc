package tfos.internal;

import java.math.BigInteger;
import java.util.Arrays;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of Spark SQL that becomes one of Arrow, value by value, in memory that native code reads.
 *
 * <p>Owner and lifetime: owns its memory until {@link #close}. Threads: one at a time. Errors: {@link
 * IllegalArgumentException} for types that {@link ColumnTypes} has no format of, and for columns of
 * more than 2 GiB.
 */
abstract class ColumnWriter implements AutoCloseable {
  private final Memory validity = new Memory();
  private int nulls;
  protected int length;

  static ColumnWriter of(DataType type) {
    return of(type, other -> null);
  }

  /** Where {@code own} has a writer for a type, it is used. */
  static ColumnWriter of(DataType type, Function<DataType, ColumnWriter> own) {
    ColumnWriter writer = own.apply(type);
    if (writer != null) {
      return writer;
    } else if (type instanceof BooleanType) {
      return new BooleanWriter();
    } else if (type instanceof ByteType) {
      return new NumberWriter(NumberWriter.Kind.BYTE);
    } else if (type instanceof ShortType) {
      return new NumberWriter(NumberWriter.Kind.SHORT);
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return new NumberWriter(NumberWriter.Kind.INT);
    } else if (type instanceof LongType || type instanceof TimestampType
        || type instanceof TimestampNTZType) {
      return new NumberWriter(NumberWriter.Kind.LONG);
    } else if (type instanceof FloatType) {
      return new NumberWriter(NumberWriter.Kind.FLOAT);
    } else if (type instanceof DoubleType) {
      return new NumberWriter(NumberWriter.Kind.DOUBLE);
    } else if (type instanceof DecimalType decimal) {
      return new DecimalWriter(decimal);
    } else if (type instanceof StringType) {
      return new StringWriter();
    } else if (type instanceof BinaryType) {
      return new BinaryWriter();
    } else if (type instanceof ArrayType array) {
      return new ListWriter(of(array.elementType(), own));
    } else if (type instanceof StructType struct) {
      return new StructWriter(struct, own);
    } else if (type instanceof UserDefinedType<?> user) {
      return of(user.sqlType(), own);
    }
    throw new IllegalArgumentException(
        "columns of " + type.simpleString() + " can't be given to native code; cast them first");
  }

  /** Appends a value of a row or an array. */
  final void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
      return;
    }
    appendValue(from, ordinal);
    markValid(1);
    length++;
  }

  final void appendNull() {
    appendEmpty();
    if (nulls == 0) {
      for (int i = 0; i < length; i++) {
        Bits.append(validity, i, true);
      }
    }
    Bits.append(validity, length, false);
    nulls++;
    length++;
  }

  /** Appends a value where there is one, as number {@link #length}. */
  protected abstract void appendValue(SpecializedGetters from, int ordinal);

  /** Appends something in place of a null. */
  protected abstract void appendEmpty();

  /** For values that were appended without {@link #append}. */
  protected final void markValid(int count) {
    if (nulls != 0) {
      for (int i = 0; i < count; i++) {
        Bits.append(validity, length + i, true);
      }
    }
  }

  /** How many numbers {@link #describe} writes. */
  int numbers() {
    return 3 + buffers().length;
  }

  /** Writes length, nulls and addresses to the numbers from {@code at} on; where the next ones go. */
  int describe(long[] to, int at) {
    long[] buffers = buffers();
    to[at++] = length;
    to[at++] = nulls;
    to[at++] = buffers.length;
    for (long buffer : buffers) {
      to[at++] = buffer;
    }
    return at;
  }

  /** The addresses, the bitmap's first. */
  protected abstract long[] buffers();

  protected final long validity() {
    return nulls == 0 ? 0 : validity.address();
  }

  /** About what the values take. */
  abstract long bytes();

  /** Forgets the values; the memory is used again. */
  void clear() {
    length = 0;
    nulls = 0;
  }

  @Override
  public void close() {
    validity.close();
  }

  /** The next offset of lists or strings, as far as those of Arrow go. */
  protected static int offset(long end) {
    if (end > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "a column has more than 2^31 - 1 elements or bytes in one batch; make batches smaller");
    }
    return (int) end;
  }

  private static final class BooleanWriter extends ColumnWriter {
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
    long bytes() {
      return length / 8;
    }

    @Override
    public void close() {
      super.close();
      values.close();
    }
  }

  private static final class NumberWriter extends ColumnWriter {
    enum Kind {
      BYTE(1), SHORT(2), INT(4), LONG(8), FLOAT(4), DOUBLE(8);

      private final int width;

      Kind(int width) {
        this.width = width;
      }
    }

    private final Kind kind;
    private final Memory values = new Memory();

    NumberWriter(Kind kind) {
      this.kind = kind;
    }

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      long at = room(1);
      switch (kind) {
        case BYTE -> Platform.putByte(null, at, from.getByte(ordinal));
        case SHORT -> Platform.putShort(null, at, from.getShort(ordinal));
        case INT -> Platform.putInt(null, at, from.getInt(ordinal));
        case LONG -> Platform.putLong(null, at, from.getLong(ordinal));
        case FLOAT -> Platform.putFloat(null, at, from.getFloat(ordinal));
        case DOUBLE -> Platform.putDouble(null, at, from.getDouble(ordinal));
      }
    }

    /** All numbers of an array at once, which Spark keeps as native code wants them. */
    boolean appendAll(ArrayData array) {
      if (!(array instanceof UnsafeArrayData numbers) || hasNulls(numbers)) {
        return false;
      }
      int count = numbers.numElements();
      long bytes = (long) count * kind.width;
      Platform.copyMemory(numbers.getBaseObject(),
          numbers.getBaseOffset() + UnsafeArrayData.calculateHeaderPortionInBytes(count), null,
          room(count), bytes);
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

    private long room(int count) {
      long begin = (long) length * kind.width;
      return values.reserve(begin + (long) count * kind.width) + begin;
    }

    @Override
    protected void appendEmpty() {
      Platform.setMemory(room(1), (byte) 0, kind.width);
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), values.address()};
    }

    @Override
    long bytes() {
      return (long) length * kind.width;
    }

    @Override
    public void close() {
      super.close();
      values.close();
    }
  }

  /** Integers of 128 bits; the type has the scale. */
  private static final class DecimalWriter extends ColumnWriter {
    private static final int WIDTH = 2 * Long.BYTES;

    private final int precision;
    private final int scale;
    private final Memory values = new Memory();

    DecimalWriter(DecimalType type) {
      precision = type.precision();
      scale = type.scale();
    }

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      BigInteger unscaled = from.getDecimal(ordinal, precision, scale).toJavaBigDecimal()
          .setScale(scale).unscaledValue();
      put(unscaled.longValue(), unscaled.shiftRight(Long.SIZE).longValue());
    }

    @Override
    protected void appendEmpty() {
      put(0, 0);
    }

    private void put(long low, long high) {
      long begin = (long) length * WIDTH;
      long at = values.reserve(begin + WIDTH) + begin;
      Platform.putLong(null, at, low);
      Platform.putLong(null, at + Long.BYTES, high);
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), values.address()};
    }

    @Override
    long bytes() {
      return (long) length * WIDTH;
    }

    @Override
    public void close() {
      super.close();
      values.close();
    }
  }

  /** Values of any length: offsets say where each ends. */
  private abstract static class OffsetWriter extends ColumnWriter {
    private final Memory offsets = new Memory();

    /** The value at hand, number {@link #length}, ends there. */
    protected final void end(long end) {
      long at = offsets.reserve((length + 2L) * Integer.BYTES);
      if (length == 0) {
        Platform.putInt(null, at, 0);
      }
      Platform.putInt(null, at + (length + 1L) * Integer.BYTES, offset(end));
    }

    protected final long offsets() {
      return offsets.address();
    }

    @Override
    long bytes() {
      return (long) length * Integer.BYTES;
    }

    @Override
    public void close() {
      super.close();
      offsets.close();
    }
  }

  private abstract static class BytesWriter extends OffsetWriter {
    private final Memory data = new Memory();
    private long used;

    protected final void appendBytes(Object base, long address, int count) {
      Platform.copyMemory(base, address, null, data.reserve(used + count) + used, count);
      used += count;
      end(used);
    }

    @Override
    protected void appendEmpty() {
      end(used);
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), offsets(), data.address()};
    }

    @Override
    long bytes() {
      return super.bytes() + used;
    }

    @Override
    void clear() {
      super.clear();
      used = 0;
    }

    @Override
    public void close() {
      super.close();
      data.close();
    }
  }

  private static final class StringWriter extends BytesWriter {
    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      UTF8String text = from.getUTF8String(ordinal);
      appendBytes(text.getBaseObject(), text.getBaseOffset(), text.numBytes());
    }
  }

  private static final class BinaryWriter extends BytesWriter {
    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      if (from instanceof UnsafeRow row) {
        // Its field says where in the row the bytes are, and how many: no array is made of them.
        long place = row.getLong(ordinal);
        appendBytes(row.getBaseObject(), row.getBaseOffset() + (place >>> Integer.SIZE), (int) place);
        return;
      }
      byte[] bytes = from.getBinary(ordinal);
      appendBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    }
  }

  private static final class ListWriter extends OffsetWriter {
    private final ColumnWriter elements;

    ListWriter(ColumnWriter elements) {
      this.elements = elements;
    }

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      ArrayData array = from.getArray(ordinal);
      int count = array.numElements();
      offset((long) elements.length + count);
      if (!(elements instanceof NumberWriter numbers) || !numbers.appendAll(array)) {
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
    int numbers() {
      return super.numbers() + elements.numbers();
    }

    @Override
    int describe(long[] to, int at) {
      return elements.describe(to, super.describe(to, at));
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), offsets()};
    }

    @Override
    long bytes() {
      return super.bytes() + elements.bytes();
    }

    @Override
    void clear() {
      super.clear();
      elements.clear();
    }

    @Override
    public void close() {
      super.close();
      elements.close();
    }
  }

  private static class StructWriter extends ColumnWriter {
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
    int numbers() {
      int count = super.numbers();
      for (ColumnWriter child : children) {
        count += child.numbers();
      }
      return count;
    }

    @Override
    int describe(long[] to, int at) {
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
    long bytes() {
      long sum = 0;
      for (ColumnWriter child : children) {
        sum += child.bytes();
      }
      return sum;
    }

    @Override
    void clear() {
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

  /** Rows, of which some columns are wanted. */
  static final class Table extends StructWriter {
    private final int[] ordinals;

    Table(StructType schema) {
      this(schema, other -> null);
    }

    Table(StructType schema, Function<DataType, ColumnWriter> own) {
      super(schema, own);
      ordinals = IntStream.range(0, schema.length()).toArray();
    }

    Table(StructType schema, String[] columns) {
      super(only(schema, columns), other -> null);
      ordinals = Arrays.stream(columns).mapToInt(schema::fieldIndex).toArray();
    }

    private static StructType only(StructType schema, String[] columns) {
      return new StructType(
          Arrays.stream(columns).map(schema::apply).toArray(StructField[]::new));
    }

    void append(InternalRow row) {
      for (int i = 0; i < children.length; i++) {
        children[i].append(row, ordinals[i]);
      }
      length++;
    }

    int rows() {
      return length;
    }

    /** The numbers of all columns (src/jvm/column_layout.h), until the next change. */
    long[] describe() {
      long[] numbers = new long[numbers()];
      describe(numbers, 0);
      return numbers;
    }
  }
}
