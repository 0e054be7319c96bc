package tfos.internal.ui;

import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;
import tfos.internal.spark.HistoryPlugin;
import tfos.internal.spark.ScalaCollections;

/**
 * The tab in Spark's History Server, which finds this class by META-INF/services and makes one for
 * each application that somebody looks at. Applications without a cluster have no tab.
 *
 * <p>Threads: Spark's. Errors: none, as the server would not show the application then. In a version
 * of Spark that tfos does not know, the tab is missing, and the log says why.
 */
public final class ClusterHistory implements HistoryPlugin {
  private static final Logger LOGGER = LoggerFactory.getLogger(ClusterHistory.class);

  /** For ServiceLoader. */
  public ClusterHistory() {}

  @Override
  public Seq<SparkListener> createListeners(SparkConf conf, ElementTrackingStore store) {
    return ScalaCollections.toScala(List.of(new ClusterListener(store)));
  }

  @Override
  public void setupUI(SparkUI ui) {
    try {
      if (ui.store().store().count(ClusterRecord.class) > 0) {
        ui.attachTab(new ClusterTab(ui, id -> false, false));
      }
    } catch (Exception | LinkageError error) {
      LOGGER.warn("this application has no tab TensorFlow: {}", error.toString());
    }
  }
}
