package tfos.feed;

import java.math.BigInteger;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;

/** Decimals, as integers of 128 bits. */
final class DecimalColumn extends Column {
  private final int precision;
  private final int scale;
  private final Memory values = new Memory();
  private final Memory[] buffers = {values};

  DecimalColumn(DecimalType type) {
    super("d:" + type.precision() + "," + type.scale());
    precision = type.precision();
    scale = type.scale();
  }

  @Override
  Memory[] buffers() {
    return buffers;
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    Decimal decimal = from.getDecimal(ordinal, precision, scale);
    BigInteger unscaled = decimal.toJavaBigDecimal().setScale(scale).unscaledValue();
    put(unscaled.longValue(), unscaled.shiftRight(Long.SIZE).longValue());
  }

  @Override
  void writeZero() {
    put(0, 0);
  }

  private void put(long low, long high) {
    long at = values.append(2 * Long.BYTES);
    Platform.putLong(null, at, low);
    Platform.putLong(null, at + Long.BYTES, high);
  }
}
