package tfos.internal.records.spark;

/** No column is known: there is no file, or no record has a value. */
final class NoColumnsException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  NoColumnsException(String message) {
    super(message);
  }
}
