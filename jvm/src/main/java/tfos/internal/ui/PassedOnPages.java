package tfos.internal.ui;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URL;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tfos.internal.spark.WebHandler;

/**
 * The coordinators' pages of the clusters of this session, as Spark's UI passes them on: for people
 * who reach Spark's UI, or a proxy in front of it, and not the driver's host. Nobody else than the
 * drivers of clusters says where a coordinator is, and what the page does not ask for is refused.
 *
 * <p>The caller brings the key to read, and the coordinator says whether it is the right one. Spark's
 * UI adds none and knows none. The page sends it as a parameter of {@code Accept}: YARN's proxy passes
 * on neither {@code Authorization} nor cookies, and keeps to a short list of fields, of which this one
 * may have any parameters. A query would stand in the logs of proxies. A gateway in front may also
 * need {@code Authorization} for its own passwords. Scripts may send the key in {@code
 * Authorization}, as to the coordinator, where the proxy passes it on.
 *
 * <p>Owner and lifetime: the UI of a session. Threads: any.
 */
final class PassedOnPages implements WebHandler {
  /** An application may start clusters without end, and clients of Spark Connect may be killed. */
  private static final int MOST_CLUSTERS = 10_000;

  /** A coordinator that does not answer must not take the threads that show Spark's own pages. */
  private static final int MOST_AT_A_TIME = 16;

  private static final int CONNECT_MS = 5_000;
  /** Without any progress. */
  private static final int READ_MS = 30_000;

  private static final Pattern ADDRESS = Pattern.compile("http://[0-9A-Za-z.:\\[\\]%_-]+/");
  private static final Pattern PATH = Pattern.compile(
      "/(?<id>[0-9A-Za-z]+)(?<page>/|/page/[a-z]+\\.(?:js|css|svg)|/v1/(?:status|history|report|(?<node>output|stacks)))");
  private static final Pattern QUERY = Pattern.compile("[0-9A-Za-z_=&,.-]{0,4096}");
  private static final Pattern ACCEPTED_KEY = Pattern.compile("; *tfos-key=([0-9a-f]{64})(?![^;, ])");
  private static final Pattern BEARER = Pattern.compile("Bearer ([0-9a-f]{64})");
  /** A coordinator's port may be another program's after its end. */
  private static final String SERVER = "tfos";

  private static final String ENDED = "";

  /** The coordinator's own (http_messages.h). What it serves loads nothing from elsewhere. */
  private static final String POLICY =
      "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

  private static final List<String> PASSED_ON = List.of("Content-Type", "X-Content-Type-Options",
      "Referrer-Policy", "Cache-Control", "WWW-Authenticate");

  private static final String UNKNOWN = "no cluster of this id runs in this application";
  private static final String NO_PAGE = "Spark's UI does not pass this on";
  private static final String BUSY = "Spark's UI passes on too many pages at this moment";
  private static final String GONE = "the coordinator does not answer Spark's driver";

  private final Semaphore room = new Semaphore(MOST_AT_A_TIME);
  /** A page that follows the output of a node asks all the time, and waits for some seconds. */
  private final Semaphore roomForNodes = new Semaphore(MOST_AT_A_TIME);
  /**
   * By the cluster's id: the coordinator's address, and {@link #ENDED} afterwards. Guarded by itself.
   * Nothing leaves it: a client of Spark Connect must not have the id of another one's cluster lead
   * to a server of its own, which would get the keys of those who look at it.
   */
  private final Map<String, String> coordinators = new HashMap<>();

  /**
   * {@code address}: such as {@code http://10.0.0.5:41234/}. The first one of a cluster counts. Throws
   * IllegalArgumentException for anything else, such as a file. Returns whether that cluster's page is
   * passed on.
   */
  boolean open(String id, String address) {
    if (!ADDRESS.matcher(address).matches()) {
      throw new IllegalArgumentException("not the address of a coordinator: " + address);
    }
    synchronized (coordinators) {
      if (coordinators.size() < MOST_CLUSTERS) {
        coordinators.putIfAbsent(id, address);
      }
      return address.equals(coordinators.get(id));
    }
  }

  /** The cluster's coordinator has ended. Only those who know its address can say so. */
  void close(String id, String address) {
    synchronized (coordinators) {
      coordinators.replace(id, address, ENDED);
    }
  }

  boolean has(String id) {
    return addressOf(id) != null;
  }

  private String addressOf(String id) {
    synchronized (coordinators) {
      String address = coordinators.get(id);
      return ENDED.equals(address) ? null : address;
    }
  }

  @Override
  public void answer(Exchange exchange) throws IOException {
    Matcher path = PATH.matcher(exchange.path());
    String query = decoded(exchange.query());
    if (!path.matches() || !QUERY.matcher(query).matches()) {
      refuse(exchange, 404, NO_PAGE);
      return;
    }
    String address = addressOf(path.group("id"));
    if (address == null) {
      refuse(exchange, 404, UNKNOWN);
      return;
    }
    Semaphore room = path.group("node") == null ? this.room : roomForNodes;
    if (!room.tryAcquire()) {
      refuse(exchange, 503, BUSY);
      return;
    }
    try {
      // Both patterns leave only what may stand in an address as it is.
      String asked = path.group("page").substring(1) + (query.isEmpty() ? "" : "?" + query);
      passOn(exchange, new URL(address + asked));
    } finally {
      room.release();
    }
  }

  private static void passOn(Exchange exchange, URL asked) throws IOException {
    // Not through a proxy of this JVM, which would learn the key.
    HttpURLConnection connection = (HttpURLConnection) asked.openConnection(Proxy.NO_PROXY);
    try {
      connection.setInstanceFollowRedirects(false);
      connection.setConnectTimeout(CONNECT_MS);
      connection.setReadTimeout(READ_MS);
      connection.setRequestProperty("Accept", "*/*");
      connection.setRequestProperty("Connection", "close");
      String key = keyOf(exchange);
      if (!key.isEmpty()) {
        connection.setRequestProperty("Authorization", "Bearer " + key);
      }
      int status = statusOf(connection);
      if (!SERVER.equals(connection.getHeaderField("Server"))) {
        refuse(exchange, 502, GONE);
        return;
      }
      exchange.status(status);
      exchange.setField("Content-Security-Policy", POLICY);
      for (String name : PASSED_ON) {
        String value = connection.getHeaderField(name);
        if (value != null) {
          exchange.setField(name, value);
        }
      }
      try (InputStream body =
          status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
        if (body != null) {
          body.transferTo(exchange.body());
        }
      }
    } finally {
      connection.disconnect();
    }
  }

  /** -1 where nobody answers, or not with HTTP. */
  private static int statusOf(HttpURLConnection connection) {
    try {
      return connection.getResponseCode();
    } catch (IOException error) {
      return -1;
    }
  }

  /** Empty where there is none that could be right. */
  private static String keyOf(Exchange exchange) {
    Matcher accepted = ACCEPTED_KEY.matcher(exchange.field("Accept"));
    if (accepted.find()) {
      return accepted.group(1);
    }
    Matcher bearer = BEARER.matcher(exchange.field("Authorization"));
    return bearer.matches() ? bearer.group(1) : "";
  }

  /** Proxies may encode a query's commas, which coordinators take as they are. */
  private static String decoded(String query) {
    try {
      return URLDecoder.decode(query, StandardCharsets.UTF_8);
    } catch (IllegalArgumentException error) {
      return query; // As it came. It has percent signs, so it is refused.
    }
  }

  private static void refuse(Exchange exchange, int status, String why) throws IOException {
    exchange.status(status);
    exchange.setField("Content-Type", "text/plain; charset=utf-8");
    exchange.setField("Cache-Control", "no-store");
    exchange.body().write((why + "\n").getBytes(StandardCharsets.UTF_8));
  }
}
