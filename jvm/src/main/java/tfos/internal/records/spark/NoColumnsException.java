package tfos.internal.records.spark;

/** Nothing tells columns: there is no file, or no record that has a value. */
final class NoColumnsException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  NoColumnsException(String message) {
    super(message);
  }
}
