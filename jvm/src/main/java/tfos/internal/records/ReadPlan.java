package tfos.internal.records;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.types.StructType;
import tfos.internal.base.Json;
import tfos.internal.columns.ColumnTypes;

/** How files of records are read. All of it was checked. */
public final class ReadPlan implements Serializable {
  private static final long serialVersionUID = 1;

  private final String recordType;
  private final String compression;
  private final String mode;
  private final String validation;
  private final StructType columns;
  private final String badColumn;

  /**
   * @param compression "", "GZIP" or "ZLIB"; null where files' names say it
   * @param columns what is decoded, without the column of bad records
   * @param badColumn takes the bytes of bad records, behind the others; "" for none
   */
  public ReadPlan(String recordType, String compression, String mode, String validation,
      StructType columns, String badColumn) {
    this.recordType = recordType;
    this.compression = compression;
    this.mode = mode;
    this.validation = validation;
    this.columns = columns;
    this.badColumn = badColumn;
  }

  public String recordType() {
    return recordType;
  }

  public String compression() {
    return compression;
  }

  public String mode() {
    return mode;
  }

  public String validation() {
    return validation;
  }

  public StructType columns() {
    return columns;
  }

  public String badColumn() {
    return badColumn;
  }

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
