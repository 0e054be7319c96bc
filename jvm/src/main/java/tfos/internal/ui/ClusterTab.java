package tfos.internal.ui;

import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.util.kvstore.KVStore;
import tfos.internal.spark.HtmlPage;

/**
 * The tab "TensorFlow" of Spark's UI: the clusters of an application, and the nodes of one.
 *
 * <p>Owner and lifetime: the UI of a session, or of an application in the History Server. Threads:
 * any.
 */
final class ClusterTab extends SparkUITab {
  /** Its address below the application's, too. */
  static final String NAME = "TensorFlow";

  /** Where the UI passes on the pages of clusters, below the tab. */
  static final String PAGES = "page";

  /**
   * {@code isPassedOn}: whether this UI passes on the page of the cluster with this id. {@code live}:
   * whether the application runs in this process.
   */
  ClusterTab(SparkUI ui, Predicate<String> isPassedOn, boolean live) {
    super(ui, NAME);
    attachPage(new ClusterPage(this, ui.store().store(), isPassedOn, live));
  }

  private static final class ClusterPage extends HtmlPage {
    private final KVStore store;
    private final Predicate<String> isPassedOn;
    private final boolean live;

    ClusterPage(ClusterTab tab, KVStore store, Predicate<String> isPassedOn, boolean live) {
      super(tab, NAME);
      this.store = store;
      this.isPassedOn = isPassedOn;
      this.live = live;
    }

    @Override
    protected String html(UnaryOperator<String> parameter) {
      List<ClusterRecord> records;
      try {
        records = Clusters.of(store);
      } catch (Exception error) {
        throw new IllegalStateException("Spark's store does not give its clusters", error);
      }
      return ClusterHtml.page(records, parameter.apply("id"), isPassedOn, live);
    }
  }
}
