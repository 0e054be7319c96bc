package tfos.internal.ui;

import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import tfos.internal.base.Json;

/**
 * How a client of Spark Connect, which has no JVM of its own to call, posts the events of its
 * clusters: it asks Spark's server for the schema of a source of this class. The option {@code
 * cluster} holds the event, as {@link ClusterEvents#post} takes it, and the option {@code coordinator} where
 * the cluster's page is. The option {@code ended}, beside {@code coordinator}, holds the id of a cluster whose coordinator
 * is gone.
 * The schema has a column, {@code seen} or {@code unseen}: whether anybody sees events. Nobody reads
 * rows from it.
 *
 * <p>Clients name this class, so it stays. Owner: Spark, for a query. Threads: any.
 */
public final class ClusterEventSource implements TableProvider {
  /** For Spark, which makes one for each query. */
  public ClusterEventSource() {}

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    SparkContext spark = SparkContext.getOrCreate(); // The server's, which runs already.
    boolean seen = ClusterEvents.attach(spark);
    if (seen && options.containsKey("ended")) {
      ClusterEvents.close(spark, options.get("ended"), options.get("coordinator"));
    } else if (seen) {
      String cluster = options.get("cluster");
      ClusterEvents.post(spark, cluster);
      if (options.containsKey("coordinator")) {
        String id = Json.parse(cluster).path("id").asText();
        ClusterEvents.open(spark, id, options.get("coordinator"));
      }
    }
    return new StructType().add(seen ? "seen" : "unseen", "boolean");
  }

  @Override
  public SupportsRead getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new NoRows(schema);
  }

  /** Spark wants a table to tell its schema. */
  private static final class NoRows implements SupportsRead {
    private final StructType schema;

    NoRows(StructType schema) {
      this.schema = schema;
    }

    @Override
    public String name() {
      return "events of tfos";
    }

    @Override
    @SuppressWarnings("deprecation") // All versions of Spark ask for it, and 3.5 has no other.
    public StructType schema() {
      return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      throw new UnsupportedOperationException("events of tfos are posted, not read");
    }
  }
}
