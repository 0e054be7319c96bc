package tfos.internal.columns;

import org.apache.spark.unsafe.Platform;

/** Bitmaps as Arrow has them: the lowest bit of a byte first. */
final class Bits {
  private Bits() {}

  static boolean get(long bitmap, long position) {
    return (Platform.getByte(null, bitmap + (position >> 3)) >> (position & 7) & 1) != 0;
  }

  /** Sets the bit behind all that were set before. */
  static void append(Memory bitmap, long position, boolean value) {
    long at = bitmap.reserve((position >> 3) + 1) + (position >> 3);
    // The first bit of a byte also clears what memory happened to have there.
    int before = (position & 7) == 0 ? 0 : Platform.getByte(null, at);
    Platform.putByte(null, at, (byte) (before | (value ? 1 : 0) << (position & 7)));
  }
}
