package tfos.internal;

import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;

/**
 * Columns that native code has made.
 *
 * <p>Owner and lifetime: owns them until {@link #close}; rows refer to them, so what is to stay
 * longer has to be copied. Threads: one at a time.
 */
final class NativeColumns implements AutoCloseable {
  static {
    NativeLibrary.load();
  }

  private final ColumnarBatchRow row;
  private final int rows;
  private long handle;

  /** Takes what a native method returned: handle and numbers (src/jvm/column_layout.h). */
  NativeColumns(StructType table, long[] given) {
    handle = given[0];
    NativeColumn.Numbers numbers = new NativeColumn.Numbers(given, 1);
    NativeColumn struct = new NativeColumn(table, numbers);
    ColumnVector[] columns = new ColumnVector[table.length()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = struct.getChild(i);
    }
    row = new ColumnarBatchRow(columns);
    rows = struct.length();
  }

  int rows() {
    return rows;
  }

  /** A row, until the next call. */
  ColumnarBatchRow row(int number) {
    row.rowId = number;
    return row;
  }

  @Override
  public void close() {
    if (handle != 0) {
      release(handle);
    }
    handle = 0;
  }

  private static native void release(long handle);
}
