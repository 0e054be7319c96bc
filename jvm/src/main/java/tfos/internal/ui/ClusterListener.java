package tfos.internal.ui;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.util.kvstore.KVStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the last word of each cluster in Spark's store, of the latest clusters alone.
 *
 * <p>Owner and lifetime: the listener bus of a session, or of a replay in the History Server.
 * Threads: Spark's, one at a time. Errors: none. Any other event is left out.
 */
final class ClusterListener extends SparkListener {
  private static final Logger LOGGER = LoggerFactory.getLogger(ClusterListener.class);
  private static final int MOST_CLUSTERS = 100;

  private final KVStore store;

  ClusterListener(KVStore store) {
    this.store = store;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof ClusterEvent)) {
      return;
    }
    try {
      take(((ClusterEvent) event).cluster);
    } catch (Exception | LinkageError error) {
      LOGGER.warn("the tab TensorFlow lacks an event of a cluster: {}", error.toString());
    }
  }

  private void take(JsonNode cluster) throws Exception {
    String id = cluster == null ? "" : cluster.path("id").asText();
    if (id.isEmpty()) {
      LOGGER.warn("an event of the tab TensorFlow names no cluster, and is left out");
      return;
    }
    store.write(new ClusterRecord(id, cluster.path("began_ms").asLong(), cluster.toString()));
    if (store.count(ClusterRecord.class) > MOST_CLUSTERS) {
      store.delete(ClusterRecord.class, oldest().id);
    }
  }

  private ClusterRecord oldest() throws Exception {
    List<ClusterRecord> records = Clusters.of(store);
    return records.stream().min(Comparator.comparingLong(record -> record.beganMs)).get();
  }
}
