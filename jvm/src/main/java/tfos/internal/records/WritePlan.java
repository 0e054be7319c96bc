package tfos.internal.records;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import org.apache.spark.sql.types.StructType;
import tfos.internal.base.Json;
import tfos.internal.columns.ColumnTypes;

/** How files of records are written. All of it was checked. */
public final class WritePlan implements Serializable {
  private static final long serialVersionUID = 1;

  private final String recordType;
  private final String compression;
  private final int level;
  private final boolean index;
  private final StructType columns;

  /**
   * @param compression "", "GZIP" or "ZLIB"
   * @param level of compression, 0 to 9; -1 leaves it to zlib
   * @param index each file gets an index beside it
   */
  public WritePlan(String recordType, String compression, int level, boolean index,
      StructType columns) {
    this.recordType = recordType;
    this.compression = compression;
    this.level = level;
    this.index = index;
    this.columns = columns;
  }

  public String recordType() {
    return recordType;
  }

  public String compression() {
    return compression;
  }

  public boolean index() {
    return index;
  }

  public StructType columns() {
    return columns;
  }

  public static WritePlan of(RecordOptions options, StructType columns) {
    String compression = options.compression() == null ? "" : options.compression();
    WritePlan plan = new WritePlan(options.recordType(), compression, options.compressionLevel(),
        options.flag("index", false), columns);
    RecordRules.checkIndex(plan.index, compression);
    RecordColumns.check(columns, plan.recordType, "written");
    return plan;
  }

  public String extension() {
    return ".tfrecord" + RecordOptions.suffixOf(compression);
  }

  /** For {@link NativeRecords#newWriter}. */
  String toJson() {
    ObjectNode json = Json.object().put("recordType", recordType).put("compression", compression)
        .put("level", level).put("index", index);
    json.set("columns", ColumnTypes.toJson(RecordColumns.codecTypes(columns)));
    return json.toString();
  }
}
