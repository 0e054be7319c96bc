package tfos.internal.feed;

import java.util.Arrays;
import org.apache.spark.api.java.JavaRDD;

/**
 * Feeds RDDs of Python objects that Spark holds pickled, without a Python worker: what {@code
 * cluster.train(rdd)} of the driver's Python program calls (python/tfos/feed/jvm.py).
 */
public final class PickledFeeder {
  private PickledFeeder() {}

  /**
   * Feeds all batches once, in a Spark job of the calling thread.
   *
   * @param plan as of {@link FrameFeeder#train}
   * @return for each partition its batches, and how many of them were sent twice, as JSON
   */
  public static String train(JavaRDD<byte[]> batches, byte[] plan) {
    return Arrays.deepToString(
        batches.mapPartitionsWithIndex(new PickledFeed(plan), false).collect().toArray());
  }
}
