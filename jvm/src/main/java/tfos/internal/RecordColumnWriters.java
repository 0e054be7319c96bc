package tfos.internal;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;

/** Columns whose types records have no counterpart of, as {@link RecordColumns#codecTypes} says. */
final class RecordColumnWriters {
  private RecordColumnWriters() {}

  /** A writer for columns of decimals or vectors; null for others. */
  static ColumnWriter of(DataType type) {
    if (type instanceof DecimalType decimal) {
      return new DecimalAsDoubleWriter(decimal);
    }
    return RecordColumns.isVector(type) ? new VectorWriter() : null;
  }

  private static final class DecimalAsDoubleWriter extends ColumnWriter {
    private final DecimalType type;
    private final Memory values = new Memory();

    DecimalAsDoubleWriter(DecimalType type) {
      this.type = type;
    }

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      put(from.getDecimal(ordinal, type.precision(), type.scale()).toDouble());
    }

    @Override
    protected void appendEmpty() {
      put(0);
    }

    private void put(double value) {
      long begin = (long) length * Double.BYTES;
      Platform.putDouble(null, values.reserve(begin + Double.BYTES) + begin, value);
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), values.address()};
    }

    @Override
    long bytes() {
      return (long) length * Double.BYTES;
    }

    @Override
    public void close() {
      super.close();
      values.close();
    }
  }

  /** Vectors of Spark ML as lists of float, sparse ones too. */
  private static final class VectorWriter extends ColumnWriter {
    // Of the struct that Spark has for a vector.
    private static final int FIELDS = 4;
    private static final int KIND = 0;
    private static final int SIZE = 1;
    private static final int INDICES = 2;
    private static final int VALUES = 3;
    private static final int SPARSE = 0;

    private final Memory offsets = new Memory();
    private final Memory values = new Memory();
    private long used;

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      InternalRow vector = from.getStruct(ordinal, FIELDS);
      ArrayData given = vector.getArray(VALUES);
      boolean isSparse = vector.getByte(KIND) == SPARSE;
      int size = isSparse ? vector.getInt(SIZE) : given.numElements();
      long bytes = (long) size * Float.BYTES;
      long at = values.reserve(used * Float.BYTES + bytes) + used * Float.BYTES;
      if (isSparse) {
        Platform.setMemory(at, (byte) 0, bytes);
      }
      ArrayData indices = isSparse ? vector.getArray(INDICES) : null;
      for (int i = 0; i < given.numElements(); i++) {
        long position = isSparse ? indices.getInt(i) : i;
        Platform.putFloat(null, at + position * Float.BYTES, (float) given.getDouble(i));
      }
      used += size;
      end();
    }

    @Override
    protected void appendEmpty() {
      end();
    }

    private void end() {
      long at = offsets.reserve((length + 2L) * Integer.BYTES);
      if (length == 0) {
        Platform.putInt(null, at, 0);
      }
      Platform.putInt(null, at + (length + 1L) * Integer.BYTES, offset(used));
    }

    @Override
    int numbers() {
      return super.numbers() + 3 + 2;
    }

    @Override
    int describe(long[] to, int at) {
      at = super.describe(to, at);
      to[at++] = used;
      to[at++] = 0; // nulls
      to[at++] = 2; // buffers
      to[at++] = 0;
      to[at++] = values.address();
      return at;
    }

    @Override
    protected long[] buffers() {
      return new long[] {validity(), offsets.address()};
    }

    @Override
    long bytes() {
      return (long) length * Integer.BYTES + used * Float.BYTES;
    }

    @Override
    void clear() {
      super.clear();
      used = 0;
    }

    @Override
    public void close() {
      super.close();
      offsets.close();
      values.close();
    }
  }
}
