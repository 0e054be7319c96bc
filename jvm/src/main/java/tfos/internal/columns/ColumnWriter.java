package tfos.internal.columns;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
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
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;

/**
 * A column of Spark SQL that becomes one of Arrow, value by value, in memory that native code
 * reads.
 *
 * <p>Owner and lifetime: owns its memory until {@link #close}. Threads: one at a time. Errors:
 * {@link IllegalArgumentException} for types that {@link ColumnTypes} has no format of, and for
 * columns of more than 2 GiB.
 */
public abstract class ColumnWriter implements AutoCloseable {
  private final Memory validity = new Memory();
  private int nulls;
  protected int length;

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
    } else if (type instanceof DecimalType) {
      return new DecimalWriter((DecimalType) type);
    } else if (type instanceof StringType) {
      return new BytesWriter.OfText();
    } else if (type instanceof BinaryType) {
      return new BytesWriter.OfBytes();
    } else if (type instanceof ArrayType) {
      return new ListWriter(of(((ArrayType) type).elementType(), own));
    } else if (type instanceof StructType) {
      return new StructWriter((StructType) type, own);
    } else if (type instanceof UserDefinedType) {
      return of(((UserDefinedType<?>) type).sqlType(), own);
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
  protected int numbers() {
    return 3 + buffers().length;
  }

  /**
   * Writes length, nulls and addresses to the numbers from {@code at} on; where the next ones go.
   */
  protected int describe(long[] to, int at) {
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
  public abstract long bytes();

  /** Forgets the values; the memory is used again. */
  public void clear() {
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
}
