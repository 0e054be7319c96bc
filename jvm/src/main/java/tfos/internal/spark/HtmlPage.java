package tfos.internal.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.ui.WebUIPage;
import scala.Function0;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.xml.Node;
import scala.xml.Unparsed;

/**
 * A page of Spark's UI that consists of HTML text, below Spark's header. Spark asks for it with the
 * requests of jakarta.servlet (from 4.0 on) or of javax.servlet (3.5): each version finds the method
 * that it knows, and never looks at the other.
 *
 * <p>Owner and lifetime: its tab. Threads: any. Errors: what {@link #html} throws becomes Spark's
 * page of an error.
 */
public abstract class HtmlPage extends WebUIPage {
  private final SparkUITab tab;
  private final String title;

  /** The first page of the tab. */
  protected HtmlPage(SparkUITab tab, String title) {
    super("");
    this.tab = tab;
    this.title = title;
  }

  /** What is below the header. {@code parameter} gives those of the address, or null. */
  protected abstract String html(UnaryOperator<String> parameter);

  @Override
  public Seq<Node> render(jakarta.servlet.http.HttpServletRequest request) {
    return page(request, html(request::getParameter));
  }

  /** For Spark 3.5. */
  public scala.collection.Seq<Node> render(javax.servlet.http.HttpServletRequest request) {
    return page(request, html(request::getParameter));
  }

  @SuppressWarnings("unchecked")
  private Seq<Node> page(Object request, String html) {
    Seq<Node> content = ScalaCollections.toScala(List.of(new Unparsed(html)));
    Method header = header();
    return (Seq<Node>) SparkVersions.call(header, null, arguments(header, request, content));
  }

  private static Method header() {
    for (Method method : UIUtils.class.getMethods()) {
      if (method.getName().equals("headerSparkPage")) {
        return method;
      }
    }
    throw new UnsupportedOperationException(
        "this version of Spark has no UIUtils.headerSparkPage, so tfos can't show its page here");
  }

  /** Versions have added switches at the end; all are off here. */
  private Object[] arguments(Method header, Object request, Seq<Node> content) {
    List<Object> arguments = new ArrayList<>();
    for (Class<?> type : header.getParameterTypes()) {
      if (type == String.class) {
        arguments.add(title);
      } else if (type == Function0.class) {
        arguments.add((Function0<Seq<Node>>) () -> content);
      } else if (type == Option.class) {
        arguments.add(Option.empty());
      } else if (type == boolean.class) {
        arguments.add(false);
      } else if (type.isInstance(request)) {
        arguments.add(request);
      } else if (type.isInstance(tab)) {
        arguments.add(tab);
      } else {
        throw new UnsupportedOperationException("UIUtils.headerSparkPage of this version of Spark "
            + "wants a " + type.getName() + ", so tfos can't show its page here");
      }
    }
    return arguments.toArray();
  }
}
