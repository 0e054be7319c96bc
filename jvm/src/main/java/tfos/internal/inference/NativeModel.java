package tfos.internal.inference;

import tfos.internal.base.NativeLibrary;

/**
 * The native methods of src/jvm/native_model.cc. JSON is as src/jvm/plan_json.h has it; handles are
 * to be given back once. Threads: any. Errors: {@link IllegalArgumentException} for what does not
 * fit, {@link UnsupportedOperationException} where TensorFlow can't be loaded.
 */
final class NativeModel {
  static {
    NativeLibrary.load();
  }

  private NativeModel() {}

  /** A signature of what a saved_model.pb contains. {@code tags} is a JSON list. */
  static native String signature(byte[] savedModel, String tags, String name);

  /**
   * Why a path without a saved_model.pb is not a SavedModel. {@code below} is a JSON list of the
   * directories in it that are one.
   */
  static native String whyNone(String path, boolean exists, boolean isDirectory, String below);

  /** Checks a request and says what is wanted and given back. */
  static native String plan(String request);

  /**
   * A session of the model in a directory of this host, with the TensorFlow of another one and its
   * own ops from libraries, a JSON list of files.
   */
  static native long load(String tensorflow, String directory, String tags, String opLibraries,
      int threads);

  /** Runners that were made of the session go on. */
  static native void unload(long session);

  static native long newRunner(long session, String request);

  /** Runs a batch, all rows at once; what {@link NativeColumns} takes. */
  static native long[] run(long runner, long[] columns, long firstRow);

  static native void deleteRunner(long runner);
}
