package tfos.internal.ui;

import org.apache.spark.util.kvstore.KVIndex;

/**
 * The last word of a cluster, as Spark's store keeps it: in memory, or on the History Server's disk
 * as JSON. Threads: any, as nobody changes it.
 */
public final class ClusterRecord {
  @KVIndex public String id;

  /** The moment of the first event. */
  public long beganMs;

  /** The object of {@link ClusterEvent}, as JSON. */
  public String cluster;

  /** For Jackson, which sets the fields. */
  public ClusterRecord() {}

  ClusterRecord(String id, long beganMs, String cluster) {
    this.id = id;
    this.beganMs = beganMs;
    this.cluster = cluster;
  }
}
