package tfos.internal.records.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.NoSuchElementException;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import tfos.internal.base.Json;
import tfos.internal.columns.NativeColumns;
import tfos.internal.records.NativeRecords;

/**
 * A file of records as batches of columns in native memory, each good until the next is asked for.
 *
 * <p>Owner and lifetime: owns the stream and the batch at hand until {@link #close}. Threads: one
 * reads; any may close. Spark ends tasks while another thread of theirs may still look at a batch:
 * its memory then stays until nobody can. Errors: {@link IllegalArgumentException} naming file,
 * record and offset, and those of the stream.
 */
final class RecordBatches extends AbstractIterator<ColumnarBatch> implements Closeable {
  private final InputStream file;
  private final StructType types;
  /** Which of the decoded columns are given, in which order. */
  private final int[] wanted;
  private final ColumnVector[] constants;
  private final BadRecords bad;
  private long reader;
  private NativeColumns batch;
  private boolean asked;
  private boolean ended;

  /** {@code constants} come behind the columns. Takes the stream. */
  RecordBatches(InputStream file, String name, String options, StructType types,
      int[] wanted, ColumnVector[] constants, BadRecords bad) {
    this.file = file;
    this.types = types;
    this.wanted = wanted;
    this.constants = constants;
    this.bad = bad;
    reader = NativeRecords.newReader(file, name, options);
  }

  @Override
  public synchronized boolean hasNext() {
    if (!asked && !ended) {
      freeBatch();
      batch = new NativeColumns(types, NativeRecords.next(reader));
      asked = true;
      if (batch.rows() == 0) {
        end();
      }
    }
    return !ended;
  }

  @Override
  public synchronized ColumnarBatch next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    asked = false;
    ColumnVector[] columns = new ColumnVector[wanted.length + constants.length];
    for (int i = 0; i < wanted.length; i++) {
      columns[i] = batch.column(wanted[i]);
    }
    System.arraycopy(constants, 0, columns, wanted.length, constants.length);
    return new ColumnarBatch(columns, batch.rows());
  }

  private void end() {
    bad.add(Json.parse(NativeRecords.counts(reader)));
    ended = true;
    freeBatch();
  }

  private void freeBatch() {
    if (batch != null) {
      batch.close();
    }
    batch = null;
  }

  @Override
  public synchronized void close() throws IOException {
    ended = true;
    batch = null; // Another thread may be reading it still: it stays while its columns are in use.
    if (reader != 0) {
      NativeRecords.deleteReader(reader);
      reader = 0;
      file.close();
    }
  }
}
