package tfos.internal.ui;

import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tfos.internal.base.Json;
import tfos.internal.spark.WebHandlers;

/** What Python tells Spark of its clusters. Threads: any. */
public final class ClusterEvents {
  private static final Logger LOGGER = LoggerFactory.getLogger(ClusterEvents.class);

  /** Sessions that have the tab, with what their UI passes on. */
  private static final Map<SparkContext, PassedOnPages> ATTACHED = new WeakHashMap<>();

  private ClusterEvents() {}

  /**
   * Adds the tab to the UI of this session, where there is one, unless it has the tab. Returns
   * whether anybody will see events: in the UI, or in an event log.
   */
  public static boolean attach(SparkContext spark) {
    synchronized (ATTACHED) {
      if (spark.ui().isDefined() && !ATTACHED.containsKey(spark)) {
        SparkUI ui = spark.ui().get();
        PassedOnPages pages = new PassedOnPages();
        // First, so that nobody tries again what has failed.
        ATTACHED.put(spark, null);
        ElementTrackingStore store = (ElementTrackingStore) ui.store().store();
        spark.listenerBus().addToStatusQueue(new ClusterListener(store));
        ui.attachTab(new ClusterTab(ui, pages::has, true));
        passOn(ui, pages, spark);
      }
    }
    return spark.ui().isDefined() || spark.isEventLogEnabled();
  }

  /** The tab is worth having without the pages. */
  private static void passOn(SparkUI ui, PassedOnPages pages, SparkContext spark) {
    try {
      WebHandlers.attach(ui, "/" + ClusterTab.NAME + "/" + ClusterTab.PAGES, pages);
      ATTACHED.put(spark, pages);
    } catch (Exception | LinkageError error) {
      LOGGER.warn("Spark's UI does not pass on the pages of clusters: {}", error.toString());
    }
  }

  /**
   * Has the UI of this session pass on a cluster's page, below {@code TensorFlow/page/ID/}, until
   * {@link #close}. {@code coordinator}: the page's address as this process reaches it. Returns
   * whether it does.
   */
  public static boolean open(SparkContext spark, String id, String coordinator) {
    PassedOnPages pages = pagesOf(spark);
    return pages != null && pages.open(id, coordinator);
  }

  /**
   * The cluster's coordinator has ended: its port may be another program's from now on. {@code
   * coordinator} is that of {@link #open}.
   */
  public static void close(SparkContext spark, String id, String coordinator) {
    PassedOnPages pages = pagesOf(spark);
    if (pages != null) {
      pages.close(id, coordinator);
    }
  }

  /** Null where there is no UI, or one that passes on nothing. */
  private static PassedOnPages pagesOf(SparkContext spark) {
    synchronized (ATTACHED) {
      return ATTACHED.get(spark);
    }
  }

  /** The object of docs/formats/spark-event.md as JSON. A session that has stopped forgets it. */
  public static void post(SparkContext spark, String cluster) {
    spark.listenerBus().post(new ClusterEvent(Json.parse(cluster)));
  }
}
