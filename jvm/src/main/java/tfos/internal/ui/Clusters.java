package tfos.internal.ui;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.util.kvstore.KVStore;
import org.apache.spark.util.kvstore.KVStoreIterator;

/** The clusters that Spark's store knows. Threads: any. */
final class Clusters {
  private Clusters() {}

  /** The latest first. */
  static List<ClusterRecord> of(KVStore store) throws Exception {
    List<ClusterRecord> records = new ArrayList<>();
    try (KVStoreIterator<ClusterRecord> each =
        store.view(ClusterRecord.class).closeableIterator()) {
      while (each.hasNext()) {
        records.add(each.next());
      }
    }
    records.sort(Comparator.comparingLong((ClusterRecord record) -> record.beganMs).reversed()
        .thenComparing(record -> record.id));
    return records;
  }
}
