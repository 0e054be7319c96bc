package tfos.feed;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.stream.LongStream;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/**
 * Values of one Spark SQL type, laid out as Arrow has them, in memory outside of Java's heap.
 *
 * <p>A null is kept as one, with zeros for its value; who fills columns asks {@link #hasNull} after
 * each row, as rows with nulls cannot be fed: of several nulls only the first is marked.
 *
 * <p>Owner and lifetime: owns its memory until {@link #close}. Threads: one.
 */
abstract class Column implements AutoCloseable {
  private static final long NO_NULL = -1;

  private final String format;
  private final Column[] children;
  private long length = 0;
  private long nullAt = NO_NULL;
  private Memory validity; // Only when there is a null.

  /** @param format Arrow's text for the type */
  Column(String format, Column... children) {
    this.format = format;
    this.children = children;
  }

  /** Appends value {@code ordinal} of a row or of an array. */
  final void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else {
      write(from, ordinal);
      ++length;
    }
  }

  final void appendNull() {
    if (nullAt == NO_NULL) {
      nullAt = length;
    }
    appendZero();
  }

  /** Appends what is there instead of a value. */
  final void appendZero() {
    writeZero();
    ++length;
  }

  /** Appends all values of an array. */
  final void appendAll(ArrayData array) {
    int count = array.numElements();
    if (writeAll(array, count)) {
      length += count;
      return;
    }
    for (int i = 0; i < count; ++i) {
      append(array, i);
    }
  }

  final long length() {
    return length;
  }

  final boolean hasNull() {
    if (nullAt != NO_NULL) {
      return true;
    }
    for (Column child : children) {
      if (child.hasNull()) {
        return true;
      }
    }
    return false;
  }

  /** Bytes that the values take, about. */
  final long bytes() {
    long bytes = 0;
    for (Memory buffer : buffers()) {
      bytes += buffer.size();
    }
    for (Column child : children) {
      bytes += child.bytes();
    }
    return bytes;
  }

  final void clear() {
    length = 0;
    nullAt = NO_NULL;
    for (Memory buffer : buffers()) {
      buffer.clear();
    }
    for (Column child : children) {
      child.clear();
    }
    begin();
  }

  @Override
  public final void close() {
    for (Memory buffer : buffers()) {
      buffer.close();
    }
    if (validity != null) {
      validity.close();
    }
    for (Column child : children) {
      child.close();
    }
  }

  // What the native part gets: src/jvm/column_layout.h.

  final void describe(String name, ObjectNode type) {
    type.put("name", name).put("format", format).put("nullable", true);
    ArrayNode types = type.putArray("children");
    for (int i = 0; i < children.length; ++i) {
      children[i].describe(childName(i), types.addObject());
    }
  }

  final void numbers(LongStream.Builder numbers) {
    numbers.add(length);
    numbers.add(nullAt == NO_NULL ? 0 : 1);
    numbers.add(1 + buffers().length);
    numbers.add(nullAt == NO_NULL ? 0 : bitmap());
    for (Memory buffer : buffers()) {
      numbers.add(buffer.address());
    }
    for (Column child : children) {
      child.numbers(numbers);
    }
  }

  /** All but the bitmap of what is null. */
  abstract Memory[] buffers();

  /** Writes value {@code ordinal}, which is not null. */
  abstract void write(SpecializedGetters from, int ordinal);

  abstract void writeZero();

  /** Writes all values at once, if it can: if none is null and they lie as Arrow has them. */
  boolean writeAll(ArrayData array, int count) {
    return false;
  }

  /** Writes what is there before the first value. */
  void begin() {}

  String childName(int child) {
    return "element";
  }

  private long bitmap() {
    if (validity == null) {
      validity = new Memory();
    }
    validity.clear();
    long bytes = length / 8 + 1;
    long at = validity.append(bytes);
    Platform.setMemory(at, (byte) 0xFF, bytes);
    long of = at + nullAt / 8;
    Platform.putByte(null, of, (byte) (Platform.getByte(null, of) & ~(1 << nullAt % 8)));
    return at;
  }
}
