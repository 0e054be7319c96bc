package tfos.internal;

/**
 * Rows of a DataFrame could not be fed. Its text begins with the name of the class in Python's {@code
 * tfos.errors} that the driver's program gets, and says which partition, which node and why.
 */
public final class FeedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** A node vanished: its process, its executor or its host died. */
  static final String NODE_LOST = "NodeLostError";

  private final String error;

  /** @param kind what the native part calls it (ErrorKindName of tfos/status.h) */
  FeedException(String kind, String message) {
    this(message, errorOf(kind), null);
  }

  private FeedException(String message, String error, Throwable cause) {
    super(message, cause);
    this.error = error;
  }

  static FeedException nodeFailed(String message, Throwable cause) {
    return new FeedException(message, "NodeFailedError", cause);
  }

  /** The class in {@code tfos.errors}. */
  public String error() {
    return error;
  }

  @Override
  public String toString() {
    return "tfos.errors." + error + ": " + getMessage();
  }

  private static String errorOf(String kind) {
    return switch (kind) {
      case "retry later" -> "FeedTimeoutError";
      case "reconnect" -> NODE_LOST;
      case "bad input" -> "BadInputError";
      default -> "FeedError";
    };
  }
}
