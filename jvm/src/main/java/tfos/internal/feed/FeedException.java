package tfos.internal.feed;

/**
 * Rows of a DataFrame could not be fed. Its text begins with the name of the class in Python's
 * {@code tfos.errors} that the driver's program gets, and says which partition, which node and why.
 */
public final class FeedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** A node vanished: its process, its executor or its host died. */
  static final String NODE_LOST = "NodeLostError";

  private final String error;
  private final boolean isSuperseded;

  /** Called by src/jvm/feeder.cc. */
  FeedException(String error, boolean isSuperseded, String message) {
    super(message);
    this.error = error;
    this.isSuperseded = isSuperseded;
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
}
