package tfos.internal.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of text or bytes. */
abstract class BytesWriter extends OffsetWriter {
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
  public long bytes() {
    return super.bytes() + used;
  }

  @Override
  public void clear() {
    super.clear();
    used = 0;
  }

  @Override
  public void close() {
    super.close();
    data.close();
  }

  static final class OfText extends BytesWriter {
    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      UTF8String text = from.getUTF8String(ordinal);
      appendBytes(text.getBaseObject(), text.getBaseOffset(), text.numBytes());
    }
  }

  static final class OfBytes extends BytesWriter {
    @Override
    protected void appendValue(SpecializedGetters from, int ordinal) {
      if (from instanceof UnsafeRow) {
        UnsafeRow row = (UnsafeRow) from;
        // Its field says where in the row the bytes are, and how many: no array is made of them.
        long place = row.getLong(ordinal);
        long address = row.getBaseOffset() + (place >>> Integer.SIZE);
        appendBytes(row.getBaseObject(), address, (int) place);
        return;
      }
      byte[] bytes = from.getBinary(ordinal);
      appendBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    }
  }
}
