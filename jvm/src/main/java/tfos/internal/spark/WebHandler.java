package tfos.internal.spark;

import java.io.IOException;
import java.io.OutputStream;

/** What answers GETs below a path of Spark's UI. Threads: many at a time. */
public interface WebHandler {
  /** What is thrown becomes Spark's page of an error, or ends the connection. */
  void answer(Exchange exchange) throws IOException;

  /** A request and its answer, whichever servlets Spark has. Threads: one at a time. */
  interface Exchange {
    /** What follows the handler's own path, decoded: it begins with a slash, or is empty. */
    String path();

    /** As the client has sent it; empty where there is none. */
    String query();

    /** A field of the request; empty where there is none. */
    String field(String name);

    /** Before the body. */
    void status(int status);

    /** Before the body. Takes the place of what was set before. */
    void setField(String name, String value);

    OutputStream body() throws IOException;
  }
}
