package tfos.internal.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.status.AppHistoryServerPlugin;
import org.apache.spark.status.ElementTrackingStore;
import scala.collection.Seq;

/**
 * What Spark's History Server calls, in all versions of Scala. In 2.12 its {@code createListeners}
 * returns the list of this interface, and in 2.13 an immutable one. A class that returns the second
 * has both.
 */
public interface HistoryPlugin extends AppHistoryServerPlugin, Listeners {}

/** As Spark 3.5 has it. */
interface Listeners {
  Seq<SparkListener> createListeners(SparkConf conf, ElementTrackingStore store);
}
