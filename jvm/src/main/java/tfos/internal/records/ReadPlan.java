package tfos.internal.records;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.types.StructType;
import tfos.internal.base.Json;
import tfos.internal.columns.ColumnTypes;

/**
 * How files of records are read. All of it was checked.
 *
 * @param compression "", "GZIP" or "ZLIB"; null where files' names say it
 * @param columns what is decoded, without the column of bad records
 * @param badColumn takes the bytes of bad records, behind the others; "" for none
 */
public record ReadPlan(String recordType, String compression, String mode, String validation,
    StructType columns, String badColumn) implements Serializable {
  public static final String FAIL_FAST = "failfast";
  public static final String DROP_MALFORMED = "dropmalformed";
  public static final String PERMISSIVE = "permissive";

  /** Rows of a batch, and bytes of their records: a few stay in the processor's cache. */
  private static final int BATCH_ROWS = 4_096;
  private static final long BATCH_BYTES = 4L << 20;

  public String compressionOf(Path file) {
    return compression != null ? compression : RecordOptions.compressionOf(file);
  }

  /** For {@link NativeRecords#newReader}: of a file, a part that begins with that record. */
  public String toJson(Path file, long begin, long end, long firstRecord) {
    ObjectNode json = Json.object().put("recordType", recordType)
        .put("compression", compressionOf(file)).put("mode", mode).put("validation", validation)
        .put("badColumn", badColumn).put("begin", begin).put("end", end)
        .put("firstRecord", firstRecord).put("batchRows", BATCH_ROWS)
        .put("batchBytes", BATCH_BYTES);
    json.set("columns", ColumnTypes.toJson(RecordColumns.codecTypes(columns)));
    return json.toString();
  }
}
