package tfos.internal.feed;

import java.util.Iterator;
import org.apache.spark.TaskContext;

/**
 * A Spark task that feeds the batches of rows that Spark holds as Python has pickled them. They are
 * passed on unopened.
 */
final class PickledFeed extends PartitionFeed<byte[]> {
  private static final long serialVersionUID = 1;

  PickledFeed(byte[] plan) {
    super(plan);
  }

  @Override
  long[] feed(TaskContext context, int partition, Iterator<byte[]> batches, long chunkBytes) {
    try (NativeFeeder feeder = connect(context, partition, null, false, chunkBytes)) {
      byte[][] chunk = new byte[Math.toIntExact(NativeFeeder.firstChunkBatches())][];
      while (batches.hasNext() && !feeder.stopped()) {
        int count = 0;
        long bytes = 0;
        while (batches.hasNext() && count < chunk.length && bytes < chunkBytes) {
          chunk[count] = batches.next();
          bytes += chunk[count++].length;
        }
        int next = Math.toIntExact(feeder.writePickled(chunk, count));
        // What was sent is let go of at once.
        chunk = new byte[next][];
      }
      return feeder.finish();
    }
  }
}
