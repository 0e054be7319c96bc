package tfos.internal.feed;

import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import tfos.internal.columns.ColumnTypes;
import tfos.internal.columns.ColumnTable;

/** A Spark task that feeds the rows of a DataFrame's partition. */
final class FrameFeed extends PartitionFeed<InternalRow> {
  private static final long serialVersionUID = 1;

  private final StructType schema;
  private final boolean decimalsAsFloat64;

  /** @param schema of the rows; its names are those that nodes get */
  FrameFeed(byte[] plan, StructType schema, boolean decimalsAsFloat64) {
    super(plan);
    this.schema = schema;
    this.decimalsAsFloat64 = decimalsAsFloat64;
  }

  @Override
  long[] feed(TaskContext context, int partition, Iterator<InternalRow> rows, long chunkBytes) {
    try (ColumnTable columns = new ColumnTable(schema);
        NativeFeeder feeder = connect(context, partition, ColumnTypes.toJson(schema).toString(),
            decimalsAsFloat64, chunkBytes)) {
      long wanted = NativeFeeder.firstChunkRows();
      while (rows.hasNext() && !feeder.stopped()) {
        long ahead = feeder.ahead();
        long most = ahead > 0 ? ahead : Math.min(wanted, -ahead);
        while (rows.hasNext() && columns.rows() < most
            && (ahead > 0 || columns.bytes() < chunkBytes)) {
          columns.append(rows.next());
        }
        wanted = feeder.write(columns, wanted);
        columns.clear();
      }
      return feeder.finish();
    }
  }
}
