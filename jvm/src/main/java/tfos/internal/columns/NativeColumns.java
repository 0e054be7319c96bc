package tfos.internal.columns;

import java.lang.ref.Cleaner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import tfos.internal.base.NativeLibrary;

/**
 * Columns that native code has made.
 *
 * <p>Owner and lifetime: owns them until {@link #close}, or until nothing refers to this or to its
 * rows any more. A reader that reaches the end closes this at once; one that stops before, as its
 * task ends, leaves it to the collector: another thread may be reading still. Rows of a closed one
 * must not be read, so copy what is to stay longer. Threads: one at a time.
 */
public final class NativeColumns implements AutoCloseable {
  static {
    NativeLibrary.load();
  }

  private static final Cleaner CLEANER = Cleaner.create();

  private final NativeColumn[] columns;
  private final ColumnarBatchRow row;
  private final int rows;
  private final Cleaner.Cleanable memory;

  /** Takes what a native method returned: handle and numbers (src/jvm/column_layout.h). */
  public NativeColumns(StructType table, long[] given) {
    long handle = given[0];
    memory = CLEANER.register(this, () -> release(handle));
    NativeColumn.Numbers numbers = new NativeColumn.Numbers(given, 1);
    NativeColumn struct = new NativeColumn(table, numbers, this);
    columns = struct.children();
    row = new ColumnarBatchRow(columns);
    rows = struct.length();
  }

  public int rows() {
    return rows;
  }

  public NativeColumn column(int number) {
    return columns[number];
  }

  /** A row, until the next call. */
  public ColumnarBatchRow row(int number) {
    row.rowId = number;
    return row;
  }

  @Override
  public void close() {
    memory.clean();
  }

  private static native void release(long handle);
}
