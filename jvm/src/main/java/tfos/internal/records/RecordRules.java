package tfos.internal.records;

import tfos.internal.base.NativeLibrary;

/**
 * The native methods of src/jvm/record_rules.cc: what the jar and Python decide alike. Threads:
 * any. Errors: {@link IllegalArgumentException} with what there is instead, or what to do.
 */
final class RecordRules {
  static {
    NativeLibrary.load();
  }

  private RecordRules() {}

  /** "Example", "SequenceExample" or "ByteArray", whatever the case of the name. */
  static native String recordType(String name);

  /** "failfast", "dropmalformed" or "permissive", whatever the case of the option. */
  static native String mode(String option);

  /** Whether the option names how much of each record is checked. */
  static native void checkValidation(String option);

  /** The value of an option: "true" or "false", whatever the case. */
  static native boolean flag(String name, String value);

  /** The value of an option: digits, which make a number of at least 1. */
  static native long count(String name, String value);

  /** The value of the option {@code compressionLevel}: 0 to 9. */
  static native int compressionLevel(String value);

  /** Whether files so compressed can have an index, if they are to have one. */
  static native void checkIndex(boolean index, String compression);

  /** "", "GZIP" or "ZLIB": what an option names. */
  static native String compression(String option);

  /** The same by the end of a file's name. */
  static native String compressionOf(String file);

  /** What the name of a file so compressed ends with. */
  static native String suffixOf(String compression);

  /** Whether such records can hold the columns of a schema, given as Spark's JSON. */
  static native void check(String schema, String recordType, boolean written);
}
