package tfos.internal.feed;

/**
 * Rows of a DataFrame could not be fed. Its text begins with the name of the class in Python's {@code
 * tfos.errors} that the driver's program gets, and says which partition, which node and why.
 */
public final class FeedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** A node vanished: its process, its executor or its host died. */
  static final String NODE_LOST = "NodeLostError";

  private static final String SUPERSEDED = "superseded";

  private final String error;
  private final boolean isSuperseded;

  /** @param kind what the native part calls it (ErrorKindName of tfos/status.h) */
  FeedException(String kind, String message) {
    this(message, errorOf(kind), kind.equals(SUPERSEDED), null);
  }

  private FeedException(String message, String error, boolean isSuperseded, Throwable cause) {
    super(message, cause);
    this.error = error;
    this.isSuperseded = isSuperseded;
  }

  static FeedException nodeFailed(String message, Throwable cause) {
    return new FeedException(message, "NodeFailedError", false, cause);
  }

  /** The class in {@code tfos.errors}. */
  public String error() {
    return error;
  }

  /** Whether another attempt of the same task has taken over. */
  boolean isSuperseded() {
    return isSuperseded;
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
