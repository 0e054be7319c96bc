package tfos.feed;

import org.apache.spark.unsafe.Platform;

/**
 * Bytes outside of Java's heap that grow as they are filled.
 *
 * <p>Owner and lifetime: owns them until {@link #close}; addresses die when it grows. Threads: one.
 */
final class Memory implements AutoCloseable {
  private static final long FIRST_CAPACITY = 1024;

  private long capacity = FIRST_CAPACITY;
  private long size = 0;
  private long start = Platform.allocateMemory(FIRST_CAPACITY);

  long address() {
    return start;
  }

  long size() {
    return size;
  }

  /** Appends so many bytes, and returns the address of the first; the caller writes them all. */
  long append(long bytes) {
    if (size + bytes > capacity) {
      grow(size + bytes);
    }
    long at = start + size;
    size += bytes;
    return at;
  }

  void clear() {
    size = 0;
  }

  private void grow(long wanted) {
    long larger = Math.max(wanted, 2 * capacity);
    start = Platform.reallocateMemory(start, size, larger);
    capacity = larger;
  }

  @Override
  public void close() {
    Platform.freeMemory(start);
    start = 0;
    capacity = 0;
    size = 0;
  }
}
