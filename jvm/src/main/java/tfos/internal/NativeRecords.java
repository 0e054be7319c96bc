package tfos.internal;

import java.io.InputStream;
import java.io.OutputStream;

/**
 * The native methods of src/jvm/record_files.cc: files of tf.Examples as columns, whose types are
 * JSON as src/jvm/column_layout.h has it. Handles are to be given back once; streams stay the
 * caller's to close. {@code name} is what messages call the file, {@code compression} "", "GZIP" or
 * "ZLIB". Threads: one for each handle. Errors: {@link IllegalArgumentException} with file and
 * record, and what streams throw.
 */
final class NativeRecords {
  static {
    NativeLibrary.load();
  }

  private NativeRecords() {}

  static native long newInference();

  /** Looks at up to {@code most} records; how many there were. */
  static native long infer(long inference, InputStream file, String name, String compression,
      long most);

  /** The columns of all records that were looked at, by name. */
  static native String inferred(long inference);

  static native void deleteInference(long inference);

  /** Whether records can hold such columns. */
  static native void check(String columns);

  static native long newReader(InputStream file, String name, String compression, String columns);

  /** The next rows, none at the end; what {@link NativeColumns} takes. */
  static native long[] next(long reader);

  static native void deleteReader(long reader);

  static native long newWriter(OutputStream file, String name, String compression, String columns);

  static native void write(long writer, long[] columns);

  /** Hands on what is left. Without it the file is incomplete. */
  static native void finish(long writer);

  static native void deleteWriter(long writer);
}
