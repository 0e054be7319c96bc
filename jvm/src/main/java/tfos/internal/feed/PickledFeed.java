package tfos.internal.feed;

import java.util.Iterator;
import org.apache.spark.TaskContext;

/**
 * A Spark task that feeds the batches of rows that Spark holds as Python has pickled them. They are
 * passed on unopened.
 */
final class PickledFeed extends PartitionFeed<byte[]> {
  private static final long serialVersionUID = 1;

  /** The native part holds a reference to each, and Java limits those. */
  private static final int MOST_BATCHES = 1 << 15;

  PickledFeed(byte[] plan) {
    super(plan);
  }

  @Override
  long[] feed(TaskContext context, int partition, Iterator<byte[]> batches, long chunkBytes) {
    try (NativeFeeder feeder = connect(context, partition, null, false, chunkBytes)) {
      // Chunks begin small and grow: the first rows arrive soon, and small data spreads evenly.
      byte[][] chunk = new byte[1][];
      while (batches.hasNext() && !feeder.stopped()) {
        int count = 0;
        long bytes = 0;
        while (batches.hasNext() && count < chunk.length && bytes < chunkBytes) {
          chunk[count] = batches.next();
          bytes += chunk[count++].length;
        }
        feeder.writePickled(chunk, count);
        if (count == chunk.length && count < MOST_BATCHES) {
          chunk = new byte[count + Math.max(1, count / 4)][];
        }
      }
      return feeder.finish();
    }
  }
}
