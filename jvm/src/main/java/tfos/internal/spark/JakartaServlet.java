package tfos.internal.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Objects;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;

/** A {@link WebHandler} for Spark 4, word for word as {@link JavaxServlet}. Threads: many at a time. */
final class JakartaServlet extends HttpServlet {
  private final transient WebHandler handler;

  JakartaServlet(WebHandler handler) {
    this.handler = handler;
  }

  @Override
  protected void doGet(HttpServletRequest request, HttpServletResponse response)
      throws IOException {
    handler.answer(new WebHandler.Exchange() {
      @Override
      public String path() {
        return Objects.toString(request.getPathInfo(), "");
      }

      @Override
      public String query() {
        return Objects.toString(request.getQueryString(), "");
      }

      @Override
      public String field(String name) {
        return Objects.toString(request.getHeader(name), "");
      }

      @Override
      public void status(int status) {
        response.setStatus(status);
      }

      @Override
      public void setField(String name, String value) {
        response.setHeader(name, value);
      }

      @Override
      public OutputStream body() throws IOException {
        return response.getOutputStream();
      }
    });
  }
}
