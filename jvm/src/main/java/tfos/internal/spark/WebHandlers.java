package tfos.internal.spark;

import java.lang.reflect.Method;
import org.apache.spark.ui.SparkUI;

/** Puts handlers into Spark's UI, for whose servlets each version has its own names. Threads: any. */
public final class WebHandlers {
  private static final String NEW_SERVLET = "jakarta.servlet.http.HttpServlet";
  private static final String OLD_SERVLET = "javax.servlet.http.HttpServlet";

  private WebHandlers() {}

  /**
   * Has the handler answer what is below {@code path}, behind the same filters as Spark's own pages.
   * Throws UnsupportedOperationException in a version of Spark that takes none.
   */
  public static void attach(SparkUI ui, String path, WebHandler handler) {
    for (Method method : SparkUI.class.getMethods()) {
      Class<?>[] types = method.getParameterTypes();
      if (method.getName().equals("attachHandler") && types.length == 3) {
        SparkVersions.call(method, ui, path, servlet(types[1].getName(), handler), "/*");
        return;
      }
    }
    throw new UnsupportedOperationException("this version of Spark's UI takes no servlets");
  }

  /** Only the class that is asked for is loaded, as Spark lacks what the other one needs. */
  private static Object servlet(String type, WebHandler handler) {
    switch (type) {
      case NEW_SERVLET: return new JakartaServlet(handler);
      case OLD_SERVLET: return new JavaxServlet(handler);
      default: throw new UnsupportedOperationException("this version of Spark's UI takes a " + type);
    }
  }
}
