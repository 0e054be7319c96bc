package tfos.internal.records.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.util.AccumulatorV2;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many records tasks passed over, and the first one's trouble: Spark shows it with each stage,
 * and the driver's log says it as tasks end.
 *
 * <p>Threads: as Spark's accumulators. As with all of them, a task that ran twice may count twice.
 */
final class BadRecords extends AccumulatorV2<JsonNode, String> {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(BadRecords.class);

  private long records;
  private long files;
  private long cutFiles;
  private String firstProblem = "";

  /** Counts what {@link NativeRecords#counts} says of a file. */
  @Override
  public void add(JsonNode counts) {
    long bad = counts.get("badRecords").asLong();
    boolean lost = counts.get("lost").asBoolean();
    if (bad == 0 && !lost) {
      return;
    }
    records += bad;
    files++;
    cutFiles += lost ? 1 : 0;
    if (firstProblem.isEmpty()) {
      firstProblem = counts.get("firstProblem").asText();
    }
  }

  @Override
  public void merge(AccumulatorV2<JsonNode, String> other) {
    BadRecords more = (BadRecords) other;
    if (more.isZero()) {
      return;
    }
    records += more.records;
    files += more.files;
    cutFiles += more.cutFiles;
    if (firstProblem.isEmpty()) {
      firstProblem = more.firstProblem;
    }
    if (isAtDriverSide()) {
      LOG.warn("TFRecords of one task: {}; in all: {}", more.value(), value());
    }
  }

  @Override
  public boolean isZero() {
    return files == 0;
  }

  @Override
  public BadRecords copy() {
    BadRecords copy = new BadRecords();
    copy.records = records;
    copy.files = files;
    copy.cutFiles = cutFiles;
    copy.firstProblem = firstProblem;
    return copy;
  }

  @Override
  public void reset() {
    records = 0;
    files = 0;
    cutFiles = 0;
    firstProblem = "";
  }

  /** Such as "3 bad records in 1 files; the first: ...". */
  @Override
  public String value() {
    if (isZero()) {
      return "0 bad records";
    }
    return records + " bad records in " + files + " files"
        + (cutFiles > 0 ? ", of which " + cutFiles + " can't be read to the end" : "")
        + "; the first: " + firstProblem;
  }
}
