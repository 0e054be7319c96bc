package tfos.internal.records.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import tfos.internal.records.ReadPlan;
import tfos.internal.records.RecordIndexes;

/**
 * What a task does with each of its files, or parts of files. Made on the driver.
 *
 * <p>Gives {@link org.apache.spark.sql.vectorized.ColumnarBatch}es, which Spark passes on as what
 * they are; the type that it declares is older.
 */
final class RecordScan extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
    implements Serializable {
  private static final long serialVersionUID = 1;

  private final ReadPlan plan;
  /** What is decoded, the column of bad records last if there is one. */
  private final StructType decoded;
  private final int[] wanted;
  private final StructType partitions;
  private final Broadcast<SerializableConfiguration> hadoop;
  private final BadRecords bad;

  RecordScan(ReadPlan plan, StructType decoded, int[] wanted, StructType partitions,
      Broadcast<SerializableConfiguration> hadoop, BadRecords bad) {
    this.plan = plan;
    this.decoded = decoded;
    this.wanted = wanted;
    this.partitions = partitions;
    this.hadoop = hadoop;
    this.bad = bad;
  }

  @Override
  public Iterator<InternalRow> apply(PartitionedFile part) {
    if (RecordIndexes.isIndex(part.toPath())) {
      return none();
    }
    try {
      return open(part);
    } catch (IOException error) {
      throw RecordScan.<RuntimeException>asItIs(error);
    }
  }

  /**
   * Spark tells missing, forbidden and corrupt files apart by the class, and names the file itself.
   */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> E asItIs(Exception error) throws E {
    throw (E) error;
  }

  private Iterator<InternalRow> open(PartitionedFile part) throws IOException {
    Path path = part.toPath();
    Configuration configuration = hadoop.value().value();
    long[] range = {0, Long.MAX_VALUE, 0};
    if (part.start() != 0 || part.length() != part.fileSize()) {
      range = RecordIndexes.part(path, part.fileSize(), part.start(), part.start() + part.length(),
          configuration);
      if (range[0] == range[1]) {
        return none();
      }
    }
    FSDataInputStream stream = path.getFileSystem(configuration).open(path);
    try {
      stream.seek(range[0]);
      RecordBatches batches = new RecordBatches(stream, path.toString(),
          plan.toJson(path, range[0], range[1], range[2]), decoded, wanted,
          constants(part.partitionValues()), bad);
      closeAtEnd(batches);
      return asRows(batches);
    } catch (RuntimeException | IOException error) {
      close(stream, error);
      throw error;
    }
  }

  private static void close(InputStream stream, Exception cause) {
    try {
      stream.close();
    } catch (IOException error) {
      cause.addSuppressed(error);
    }
  }

  private static void closeAtEnd(RecordBatches batches) {
    TaskContext task = TaskContext.get();
    if (task == null) {
      return;
    }
    task.addTaskCompletionListener(ended -> {
      try {
        batches.close();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    });
  }

  private ColumnVector[] constants(InternalRow values) {
    ColumnVector[] constants = new ColumnVector[partitions.length()];
    for (int i = 0; i < constants.length; i++) {
      // Nobody reads how many values it says that it has.
      ConstantColumnVector constant = new ConstantColumnVector(1, partitions.apply(i).dataType());
      ColumnVectorUtils.populate(constant, values, i);
      constants[i] = constant;
    }
    return constants;
  }

  @SuppressWarnings("unchecked")
  private static Iterator<InternalRow> none() {
    return (Iterator<InternalRow>) (Iterator<?>) scala.collection.Iterator$.MODULE$.empty();
  }

  @SuppressWarnings("unchecked")
  private static Iterator<InternalRow> asRows(RecordBatches batches) {
    return (Iterator<InternalRow>) (Iterator<?>) batches;
  }
}
