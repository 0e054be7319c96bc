package tfos.internal.columns;

import java.math.BigInteger;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;

/** A column of decimals, as integers of 128 bits; the type has the scale. */
final class DecimalWriter extends FixedWidthWriter {
  private static final int WIDTH = 2 * Long.BYTES;

  private final int precision;
  private final int scale;

  DecimalWriter(DecimalType type) {
    super(WIDTH);
    precision = type.precision();
    scale = type.scale();
  }

  @Override
  protected void appendValue(SpecializedGetters from, int ordinal) {
    BigInteger unscaled = from.getDecimal(ordinal, precision, scale).toJavaBigDecimal()
        .setScale(scale).unscaledValue();
    long at = place();
    Platform.putLong(null, at, unscaled.longValue());
    Platform.putLong(null, at + Long.BYTES, unscaled.shiftRight(Long.SIZE).longValue());
  }
}
