package tfos.internal.inference;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;
import tfos.internal.columns.ColumnTable;
import tfos.internal.columns.NativeColumns;

/** What a Spark task does with its partition: rows through a model, batch by batch. */
final class ModelTask implements FlatMapFunction<Iterator<InternalRow>, InternalRow> {
  private static final long serialVersionUID = 1;

  private final SavedModel model;
  private final String request;
  private final StructType schema;
  private final String[] columns;
  private final StructType outputs;
  private final int batchSize;
  private final boolean keep;
  private final SerializableConfiguration hadoop;

  ModelTask(SavedModel model, String request, StructType schema, String[] columns,
      StructType outputs, int batchSize, boolean keep, SerializableConfiguration hadoop) {
    this.model = model;
    this.request = request;
    this.schema = schema;
    this.columns = columns;
    this.outputs = outputs;
    this.batchSize = batchSize;
    this.keep = keep;
    this.hadoop = hadoop;
  }

  @Override
  public Iterator<InternalRow> call(Iterator<InternalRow> rows) {
    return rows.hasNext() ? new Results(rows, TaskContext.get()) : rows;
  }

  /** Each row is good until the next one is asked for. */
  private final class Results implements Iterator<InternalRow>, TaskCompletionListener {
    private final Iterator<InternalRow> rows;
    private final int partition;
    private final ColumnTable writer;
    private final long runner;
    private final List<InternalRow> kept = new ArrayList<>();
    private final JoinedRow joined = new JoinedRow();
    private NativeColumns results;
    private int next;
    private long done;
    private boolean closed;

    Results(Iterator<InternalRow> rows, TaskContext task) {
      this.rows = rows;
      partition = task.partitionId();
      // The tasks of a process share the session. One core for each task is all that they may
      // compute with; more are for whichever task has need of them.
      SparkConf conf = SparkEnv.get().conf();
      int threads = conf.getInt("spark.task.cpus", 1) == 1
          ? 1 : conf.getInt("spark.executor.cores", 0);
      writer = new ColumnTable(schema, columns);
      runner = Sessions.newRunner(model, request, threads, hadoop.value());
      task.addTaskCompletionListener(this);
    }

    @Override
    public boolean hasNext() {
      return results != null && next < results.rows() || advance();
    }

    /**
     * Runs the next batch, if there is one. Spark may end a task while another thread of it asks
     * for rows.
     */
    private synchronized boolean advance() {
      closeResults();
      if (closed || !rows.hasNext()) {
        return false;
      }
      writer.clear();
      kept.clear();
      while (writer.rows() < batchSize && rows.hasNext()) {
        InternalRow row = rows.next();
        writer.append(row);
        if (keep) {
          kept.add(row.copy());
        }
      }
      results = new NativeColumns(outputs, run());
      done += writer.rows();
      next = 0;
      return true;
    }

    private long[] run() {
      try {
        return NativeModel.run(runner, writer.describe(), done);
      } catch (IllegalArgumentException error) {
        throw new IllegalArgumentException(
            model.path + ", partition " + partition + ": " + error.getMessage(), error);
      }
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      int row = next++;
      return keep ? joined.apply(kept.get(row), results.row(row)) : results.row(row);
    }

    @Override
    public synchronized void onTaskCompletion(TaskContext task) {
      closed = true; // The results stay for their reader: see NativeColumns.
      writer.close();
      NativeModel.deleteRunner(runner);
    }

    private void closeResults() {
      if (results != null) {
        results.close();
      }
      results = null;
    }
  }
}
