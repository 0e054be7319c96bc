package tfos.internal.records;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Path;

/**
 * The options of the format {@code tfrecord} (docs/tfrecords.md), whatever their case, and the
 * names in them.
 *
 * <p>Threads: readable from any. Errors: {@link IllegalArgumentException} for an option that there
 * is not, and for a value that it can't have.
 */
public final class RecordOptions {
  public static final String EXAMPLE = "Example";
  public static final String BYTE_ARRAY = "ByteArray";

  private static final Set<String> READ = Set.of("recordtype", "compression", "mode",
      "samplerecords", "inferstrings", "maxpartitionbytes", "validation",
      "columnnameofcorruptrecord", "pathglobfilter", "recursivefilelookup");
  private static final Set<String> WRITE =
      Set.of("recordtype", "compression", "compressionlevel", "index");

  /** Options of Spark itself, for every format of files. */
  private static final Set<String> SPARK_READ = Set.of("path", "paths", "basepath",
      "modifiedbefore", "modifiedafter", "ignorecorruptfiles", "ignoremissingfiles", "timezone",
      "returning_batch", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage",
      "filenameonly", "cleansource", "sourcearchivedir");
  private static final Set<String> SPARK_WRITE = Set.of("path", "partitionoverwritemode",
      "maxrecordsperfile", "timezone", "__partition_columns", "__clustering_columns",
      "checkpointlocation", "retention", "queryname");

  private final Map<String, String> options = new TreeMap<>();

  private RecordOptions(scala.collection.immutable.Map<String, String> given) {
    var names = given.keysIterator();
    while (names.hasNext()) {
      String name = names.next();
      options.put(name.toLowerCase(Locale.ROOT), given.apply(name));
    }
  }

  public static RecordOptions forReading(scala.collection.immutable.Map<String, String> given) {
    RecordOptions options = new RecordOptions(given);
    options.check(READ, "read");
    return options;
  }

  public static RecordOptions forWriting(scala.collection.immutable.Map<String, String> given) {
    RecordOptions options = new RecordOptions(given);
    options.check(WRITE, "written");
    return options;
  }

  /**
   * Names with a dot are for Hadoop, or for a catalog. A table has its options for both directions,
   * so those of the other one are passed over.
   */
  private void check(Set<String> known, String action) {
    List<String> unknown = new ArrayList<>();
    for (String name : options.keySet()) {
      boolean exists = Stream.of(READ, WRITE, SPARK_READ, SPARK_WRITE)
          .anyMatch(names -> names.contains(name));
      if (!exists && name.indexOf('.') < 0) {
        unknown.add(name);
      }
    }
    if (!unknown.isEmpty()) {
      throw new IllegalArgumentException("TFRecords can't be " + action + " with the option "
          + String.join(", ", unknown) + "; there are " + String.join(", ", new TreeSet<>(known))
          + (unknown.contains("ifexists") || unknown.contains("partitioncolumns")
              ? "; use mode(...) and partitionBy(...)" : ""));
    }
  }

  public boolean has(String name) {
    return options.containsKey(name.toLowerCase(Locale.ROOT));
  }

  /** What was given, or the default. */
  public String get(String name, String otherwise) {
    return options.getOrDefault(name.toLowerCase(Locale.ROOT), otherwise);
  }

  /** "failfast", "dropmalformed" or "permissive". */
  public String mode() {
    return RecordRules.mode(get("mode", ReadPlan.FAIL_FAST));
  }

  /** How much of each record is checked. */
  public String validation() {
    String given = get("validation", "full");
    RecordRules.checkValidation(given);
    return given;
  }

  public String recordType() {
    return RecordRules.recordType(get("recordType", EXAMPLE));
  }

  /** "", "GZIP" or "ZLIB"; null where files' names say it. */
  public String compression() {
    return has("compression") ? RecordRules.compression(get("compression", "")) : null;
  }

  public boolean flag(String name, boolean otherwise) {
    return RecordRules.flag(name, get(name, Boolean.toString(otherwise)));
  }

  /** A number of at least 1. */
  public long count(String name, long otherwise) {
    return has(name) ? RecordRules.count(name, get(name, "")) : otherwise;
  }

  /** From 0 to 9; -1 leaves it to zlib. */
  public int compressionLevel() {
    return has("compressionLevel") ? RecordRules.compressionLevel(get("compressionLevel", "")) : -1;
  }

  /** "", "GZIP" or "ZLIB", by the end of a file's name. */
  public static String compressionOf(Path file) {
    return RecordRules.compressionOf(file.getName());
  }

  /** What the name of a file so compressed ends with. */
  static String suffixOf(String compression) {
    return RecordRules.suffixOf(compression);
  }
}
