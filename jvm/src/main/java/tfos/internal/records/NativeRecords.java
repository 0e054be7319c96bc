package tfos.internal.records;

import java.io.InputStream;
import java.io.OutputStream;
import tfos.internal.base.NativeLibrary;

/**
 * The native methods of src/jvm/native_records.cc: files of records as columns, whose types are
 * JSON as src/jvm/column_layout.h has it. Handles are to be given back once; streams stay the
 * caller's to close. {@code name} is what messages call the file, {@code compression} "", "GZIP" or
 * "ZLIB", {@code recordType} one of {@link RecordOptions}. Threads: one for each handle. Errors:
 * {@link IllegalArgumentException} with file and record, and what streams throw.
 */
public final class NativeRecords {
  static {
    NativeLibrary.load();
  }

  private NativeRecords() {}

  public static native long newInference(String recordType, boolean strings);

  /**
   * Looks at up to {@code most} records; how many there were. {@code validation} says which CRCs
   * are compared.
   */
  public static native long infer(long inference, InputStream file, String name, String compression,
      String validation, long most, boolean onlySound);

  /** The columns of all records that were looked at, by name. */
  public static native String inferred(long inference);

  public static native void deleteInference(long inference);

  /** {@code options} are those of {@link ReadPlan#toJson}. */
  public static native long newReader(InputStream file, String name, String options);

  /** The next rows, none at the end; what {@link NativeColumns} takes. */
  public static native long[] next(long reader);

  /** JSON of records, badRecords, lost and firstProblem, so far. */
  public static native String counts(long reader);

  public static native void deleteReader(long reader);

  /**
   * What the index of a file of {@code bytes}, which begins and ends so, says of the part from byte
   * {@code begin} to {@code end}. It says where its first record begins, where its last one ends,
   * and the first one's number.
   */
  static native long[] part(byte[] index, String name, long bytes, byte[] head, byte[] tail,
      long begin, long end);

  /** {@code options} are those of {@link WritePlan#toJson}. */
  static native long newWriter(OutputStream file, String name, String options);

  static native void write(long writer, long[] columns);

  /** Hands on what is left. Without it the file is incomplete. */
  static native void finish(long writer);

  /** The index of what was written, once, of a writer that was told to make one. */
  static native byte[] index(long writer);

  static native void deleteWriter(long writer);
}
