package tfos.internal.ui;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;
import tfos.internal.base.Json;

/** What Python tells Spark of its clusters. Threads: any. */
public final class ClusterEvents {
  /** Sessions that have the tab. */
  private static final Set<SparkContext> ATTACHED = Collections.newSetFromMap(new WeakHashMap<>());

  private ClusterEvents() {}

  /**
   * Adds the tab to the UI of this session, where there is one, unless it has the tab. Returns
   * whether anybody will see events: in the UI, or in an event log.
   */
  public static boolean attach(SparkContext spark) {
    synchronized (ATTACHED) {
      if (spark.ui().isDefined() && ATTACHED.add(spark)) {
        SparkUI ui = spark.ui().get();
        ElementTrackingStore store = (ElementTrackingStore) ui.store().store();
        spark.listenerBus().addToStatusQueue(new ClusterListener(store));
        ui.attachTab(new ClusterTab(ui, true));
      }
    }
    return spark.ui().isDefined() || spark.isEventLogEnabled();
  }

  /** The object of docs/formats/spark-event.md as JSON. A session that has stopped forgets it. */
  public static void post(SparkContext spark, String cluster) {
    spark.listenerBus().post(new ClusterEvent(Json.parse(cluster)));
  }
}
