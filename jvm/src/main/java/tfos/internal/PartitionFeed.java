package tfos.internal;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * A Spark task that feeds its partition to whichever nodes take it. Gives the two numbers of {@link
 * NativeFeeder#finish}.
 */
final class PartitionFeed implements Function2<Integer, Iterator<InternalRow>, Iterator<long[]>> {
  private static final long serialVersionUID = 1;
  private static final long[] NOTHING = {0, 0};

  private final String plan; // With the cluster's token: never shown.
  private final StructType schema;
  private final boolean decimalsAsFloat64;

  /** @param schema of the rows; its names are those that nodes get */
  PartitionFeed(String plan, StructType schema, boolean decimalsAsFloat64) {
    this.plan = plan;
    this.schema = schema;
    this.decimalsAsFloat64 = decimalsAsFloat64;
  }

  @Override
  public Iterator<long[]> call(Integer partition, Iterator<InternalRow> rows)
      throws JsonProcessingException {
    TaskContext context = TaskContext.get();
    JsonNode json = new ObjectMapper().readTree(plan);
    try {
      return List.of(feed(context, partition, rows, json.get("chunk_bytes").asLong())).iterator();
    } catch (FeedException error) {
      context.killTaskIfInterrupted();
      if (!error.error().equals(FeedException.NODE_LOST)) {
        throw error;
      }
      Coordinator coordinator = new Coordinator(json);
      if (!coordinator.programsHaveReturned()) {
        coordinator.firstFailure().ifPresent(failure -> {
          throw FeedException.nodeFailed(failure, error);
        });
      }
      if (coordinator.programsHaveReturned()) {
        return List.of(NOTHING).iterator(); // Nobody is left who wants rows: that is no failure.
      }
      throw error;
    }
  }

  private long[] feed(TaskContext context, int partition, Iterator<InternalRow> rows,
      long chunkBytes) {
    try (ColumnWriter.Table columns = new ColumnWriter.Table(schema);
        NativeFeeder feeder = new NativeFeeder(plan, executorId(), partition,
            context.attemptNumber(), ColumnTypes.toJson(schema).toString(), decimalsAsFloat64,
            chunkBytes, context::isInterrupted)) {
      long wanted = NativeFeeder.firstChunkRows();
      while (rows.hasNext() && !feeder.stopped()) {
        while (rows.hasNext() && columns.rows() < wanted && columns.bytes() < chunkBytes) {
          columns.append(rows.next());
        }
        wanted = feeder.write(columns, wanted);
        columns.clear();
      }
      return feeder.finish();
    }
  }

  /** As the nodes of this executor call it: see python/tfos/executor.py. */
  private static String executorId() {
    String given = System.getenv("SPARK_EXECUTOR_ID");
    return given != null && !given.isEmpty() ? given : "process " + ProcessHandle.current().pid();
  }
}
