package tfos.internal.feed;

import java.nio.charset.StandardCharsets;
import java.util.function.BooleanSupplier;
import tfos.internal.base.NativeLibrary;
import tfos.internal.columns.ColumnTable;

/**
 * Feeds one partition: the native part, which talks to the nodes.
 *
 * <p>Owner and lifetime: owns its connections until {@link #close}. Threads: that which made it.
 * Errors: {@link FeedException}.
 */
final class NativeFeeder implements AutoCloseable {
  static {
    NativeLibrary.load();
  }

  private final long handle;

  /**
   * Connects to the nodes, and learns what they have of the partition from earlier attempts.
   *
   * @param plan the JSON that {@code FeedPlan.to_json} of python/tfos/feed/plan.py makes
   * @param attempt Spark's id of the task attempt: of two, the later one takes over
   * @param columns the type of all rows (src/jvm/column_layout.h); null for pickled batches
   * @param killed asked while it waits; true ends the wait
   */
  NativeFeeder(byte[] plan, String executorId, int partition, long attempt, String columns,
      boolean decimalsAsFloat64, long chunkBytes, BooleanSupplier killed) {
    handle = open(plan, utf8(executorId), partition, attempt,
        columns == null ? null : utf8(columns), decimalsAsFloat64, chunkBytes, killed);
  }

  /** Rows that the first chunk should have. */
  static native long firstChunkRows();

  /**
   * Sends the rows that the nodes lack, unless nobody wants rows any more. Waits for room.
   *
   * @return how many rows the chunk after this one should have, of which {@code wanted} were
   */
  long write(ColumnTable rows, long wanted) {
    return write(handle, wanted, rows.describe());
  }

  /**
   * What the next call should bring.
   *
   * @return above 0: exactly so many rows or batches, or what is left of the partition. An earlier
   *     attempt has delivered them as one chunk, with which they are compared. Below 0: minus the
   *     most that it may bring.
   */
  long ahead() {
    return ahead(handle);
  }

  /** The same for {@link #writePickled}. */
  long batchesAhead() {
    return batchesAhead(handle);
  }

  /**
   * Sends the first {@code count} batches, as Python has pickled them, except those that the nodes
   * have. Waits for room.
   */
  void writePickled(byte[][] batches, int count) {
    writePickled(handle, batches, count);
  }

  /**
   * Asks the coordinator why a node was lost.
   *
   * @param plan the one of the feeder that lost it
   * @return whether the programs of all nodes that were fed have returned, so that nobody wants
   *     rows any more. Throws a {@link FeedException} with the cluster's failure where there is
   *     one.
   */
  static native boolean programsHaveReturned(byte[] plan, BooleanSupplier killed);

  /** Whether no node wants more rows. */
  boolean stopped() {
    return stopped(handle);
  }

  /**
   * Waits until the nodes have everything.
   *
   * @return how many rows this and earlier attempts have delivered, and how many of them this one
   *     sent twice, as a node was lost
   */
  long[] finish() {
    return finish(handle);
  }

  @Override
  public void close() {
    close(handle);
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static native long open(byte[] plan, byte[] executorId, int partition, long attempt,
      byte[] columns, boolean decimalsAsFloat64, long chunkBytes, BooleanSupplier killed);

  private static native long write(long handle, long wanted, long[] numbers);

  private static native void writePickled(long handle, byte[][] batches, int count);

  private static native long ahead(long handle);

  private static native long batchesAhead(long handle);

  private static native boolean stopped(long handle);

  private static native long[] finish(long handle);

  private static native void close(long handle);
}
