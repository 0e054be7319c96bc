package tfos.internal.columns;

import org.apache.spark.unsafe.Platform;

/**
 * A column whose values all take the same number of bytes.
 *
 * <p>Owner and lifetime, threads, errors: as {@link ColumnWriter}. Units: bytes.
 */
public abstract class FixedWidthWriter extends ColumnWriter {
  private final int width;
  private final Memory values = new Memory();

  protected FixedWidthWriter(int width) {
    this.width = width;
  }

  /** Where the next value goes, behind all that were appended. */
  protected final long place() {
    return places(1);
  }

  /** Where the next {@code count} values go, one behind the other. */
  final long places(int count) {
    long begin = (long) length * width;
    return values.reserve(begin + (long) count * width) + begin;
  }

  @Override
  protected void appendEmpty() {
    Platform.setMemory(place(), (byte) 0, width);
  }

  @Override
  protected long[] buffers() {
    return new long[] {validity(), values.address()};
  }

  @Override
  public long bytes() {
    return (long) length * width;
  }

  @Override
  public void close() {
    super.close();
    values.close();
  }
}
