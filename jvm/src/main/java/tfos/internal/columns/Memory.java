package tfos.internal.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Memory outside of Java's heap that grows, and whose address native code can be given.
 *
 * <p>Owner and lifetime: its maker, until {@link #close}. Growing moves it. Threads: one at a
 * time. Units: bytes.
 */
public final class Memory implements AutoCloseable {
  private static final long SMALLEST = 64;

  private long address;
  private long capacity;

  /** The address, 0 for memory that nothing was reserved in. */
  public long address() {
    return address;
  }

  /** Makes room for so many bytes in all; what was in it stays. Returns the address. */
  public long reserve(long bytes) {
    if (bytes > capacity) {
      long wanted = Math.max(SMALLEST, Math.max(bytes, 2 * capacity));
      address = Platform.reallocateMemory(address, capacity, wanted);
      capacity = wanted;
    }
    return address;
  }

  @Override
  public void close() {
    if (address != 0) {
      Platform.freeMemory(address);
    }
    address = 0;
    capacity = 0;
  }
}
