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
      while (batches.hasNext() && !feeder.stopped()) {
        long ahead = feeder.batchesAhead();
        // A new one each time: what was sent is let go of at once.
        byte[][] chunk = new byte[Math.toIntExact(Math.abs(ahead))][];
        int count = 0;
        long bytes = 0;
        while (batches.hasNext() && count < chunk.length && (ahead > 0 || bytes < chunkBytes)) {
          chunk[count] = batches.next();
          bytes += chunk[count++].length;
        }
        feeder.writePickled(chunk, count);
      }
      return feeder.finish();
    }
  }
}
