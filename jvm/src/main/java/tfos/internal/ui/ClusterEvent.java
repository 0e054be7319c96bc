package tfos.internal.ui;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * How a cluster is, on Spark's listener bus and in its event log (docs/formats/spark-event.md). Event
 * logs have the name of this class, so it stays.
 *
 * <p>Any JSON fits: an event log that is broken here must not keep Spark from reading the rest.
 * Threads: any, as nobody changes it once it was posted.
 */
public final class ClusterEvent implements SparkListenerEvent {
  /** An object, unless the event log is broken; null in one that lacks it. */
  public JsonNode cluster;

  /** For Jackson, which sets the field. */
  public ClusterEvent() {}

  ClusterEvent(JsonNode cluster) {
    this.cluster = cluster;
  }
}
