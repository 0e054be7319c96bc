package tfos.internal.columns;

import org.apache.spark.unsafe.Platform;

/** A column of values of any length: offsets say where each ends. */
public abstract class OffsetWriter extends ColumnWriter {
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
  public long bytes() {
    return (long) length * Integer.BYTES;
  }

  @Override
  public void close() {
    super.close();
    offsets.close();
  }
}
