package tfos.internal.feed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.Function2;

/**
 * A Spark task that feeds its partition to whichever nodes take it. Gives the two numbers of {@link
 * NativeFeeder#finish}.
 */
abstract class PartitionFeed<T> implements Function2<Integer, Iterator<T>, Iterator<long[]>> {
  private static final long serialVersionUID = 1;
  private static final long[] NOTHING = {0, 0};

  private final byte[] plan; // With keys of the cluster: never shown.

  PartitionFeed(byte[] plan) {
    this.plan = plan;
  }

  @Override
  public Iterator<long[]> call(Integer partition, Iterator<T> rows) throws IOException {
    TaskContext context = TaskContext.get();
    JsonNode json = new ObjectMapper().readTree(plan);
    try {
      return List.of(feed(context, partition, rows, json.get("chunk_bytes").asLong())).iterator();
    } catch (FeedException error) {
      context.killTaskIfInterrupted();
      if (error.isSuperseded()) {
        // As if Spark had killed it: four of its copies that fail would end the job.
        throw new TaskKilledException(error.getMessage());
      }
      if (!error.error().equals(FeedException.NODE_LOST)) {
        throw error;
      }
      if (programsHaveReturned(context, error)) {
        return List.of(NOTHING).iterator(); // Nobody wants rows any more: not a failure.
      }
      throw error;
    }
  }

  /** Throws the failure of the cluster that explains why a node was lost, if there is one. */
  private boolean programsHaveReturned(TaskContext context, FeedException lost) {
    try {
      return NativeFeeder.programsHaveReturned(plan, context::isInterrupted);
    } catch (FeedException failure) {
      context.killTaskIfInterrupted();
      failure.initCause(lost);
      throw failure;
    }
  }

  /** Feeds the rows; gives the two numbers of {@link NativeFeeder#finish}. */
  abstract long[] feed(TaskContext context, int partition, Iterator<T> rows, long chunkBytes);

  /** @param columns the type of the rows; null for pickled batches */
  NativeFeeder connect(TaskContext context, int partition, String columns,
      boolean decimalsAsFloat64, long chunkBytes) {
    return new NativeFeeder(plan, executorId(), partition, context.taskAttemptId(), columns,
        decimalsAsFloat64, chunkBytes, context::isInterrupted);
  }

  /** As the nodes of this executor call it: see python/tfos/spark/executor.py. */
  private static String executorId() {
    String id = SparkEnv.get().executorId();
    return id.equals("driver") ? "process " + ProcessHandle.current().pid() : id;
  }
}
