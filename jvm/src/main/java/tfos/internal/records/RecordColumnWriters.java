package tfos.internal.records;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;
import tfos.internal.columns.ColumnWriter;
import tfos.internal.columns.FixedWidthWriter;
import tfos.internal.columns.Memory;
import tfos.internal.columns.OffsetWriter;

/** Columns whose types records have no counterpart of, as {@link RecordColumns#codecTypes} says. */
final class RecordColumnWriters {
  private RecordColumnWriters() {}

  /** A writer for columns of decimals or vectors; null for others. */
  static ColumnWriter of(DataType type) {
    if (type instanceof DecimalType) {
      return new DecimalAsDoubleWriter((DecimalType) type);
    }
    return RecordColumns.isVector(type) ? new VectorWriter() : null;
  }

  private static final class DecimalAsDoubleWriter extends FixedWidthWriter {
    private final DecimalType type;

    DecimalAsDoubleWriter(DecimalType type) {
      super(Double.BYTES);
      this.type = type;
    }

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      double value = from.getDecimal(ordinal, type.precision(), type.scale()).toDouble();
      Platform.putDouble(null, place(), value);
    }
  }

  /** Vectors of Spark ML as lists of float, sparse ones too. */
  private static final class VectorWriter extends OffsetWriter {
    // Fields of the struct that Spark has for a vector.
    private static final int FIELDS = 4;
    private static final int KIND = 0;
    private static final int SIZE = 1;
    private static final int INDICES = 2;
    private static final int VALUES = 3;
    private static final int SPARSE = 0;

    private final Memory values = new Memory();
    private long used;

    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      InternalRow vector = from.getStruct(ordinal, FIELDS);
      ArrayData given = vector.getArray(VALUES);
      boolean isSparse = vector.getByte(KIND) == SPARSE;
      int size = isSparse ? vector.getInt(SIZE) : given.numElements();
      ArrayData indices = isSparse ? vector.getArray(INDICES) : null;
      if (isSparse) {
        check(size, indices, given);
      }
      long bytes = (long) size * Float.BYTES;
      long at = values.reserve(used * Float.BYTES + bytes) + used * Float.BYTES;
      if (isSparse) {
        Platform.setMemory(at, (byte) 0, bytes);
      }
      for (int i = 0; i < given.numElements(); i++) {
        long position = isSparse ? indices.getInt(i) : i;
        Platform.putFloat(null, at + position * Float.BYTES, (float) given.getDouble(i));
      }
      used += size;
      end(used);
    }

    /** Spark checks vectors that it makes itself, and those of Python programs are not. */
    private static void check(int size, ArrayData indices, ArrayData given) {
      boolean fits = size >= 0 && indices.numElements() == given.numElements();
      for (int i = 0; fits && i < indices.numElements(); i++) {
        fits = 0 <= indices.getInt(i) && indices.getInt(i) < size;
      }
      if (!fits) {
        throw new IllegalArgumentException("a sparse vector of size " + size + " has "
            + indices.numElements() + " indices, and " + given.numElements()
            + " values: it needs a value for each index, and indices from 0 to its size less 1");
      }
    }

    @Override
    protected void appendEmpty() {
      end(used);
    }

    @Override
    protected int numbers() {
      return super.numbers() + 3 + 2;
    }

    @Override
    protected int describe(long[] to, int at) {
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
      return new long[] {validity(), offsets()};
    }

    @Override
    public long bytes() {
      return super.bytes() + used * Float.BYTES;
    }

    @Override
    public void clear() {
      super.clear();
      used = 0;
    }

    @Override
    public void close() {
      super.close();
      values.close();
    }
  }
}
