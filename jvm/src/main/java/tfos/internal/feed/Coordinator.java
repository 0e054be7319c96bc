package tfos.internal.feed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** What a task that lost a node asks the cluster's coordinator. Threads: any. */
final class Coordinator {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int FAILURE_WAIT_MS = 2000;
  private static final int TIMEOUT_MS = 5000;
  private static final Set<String> ENDED = Set.of("done", "lost");

  private final JsonNode plan;

  Coordinator(JsonNode plan) {
    this.plan = plan;
  }

  /** The cluster's first failure, if it has one or gets one soon: it explains what came after. */
  Optional<String> firstFailure() {
    return ask("/v1/failure?wait_ms=" + FAILURE_WAIT_MS, TIMEOUT_MS + FAILURE_WAIT_MS)
        .map(failure -> failure.path("node_id").asInt(-1) < 0
            ? String.format("the cluster failed: %s: %s", text(failure, "step"),
                text(failure, "message"))
            : String.format("%s:%s (node %s, executor %s on %s) failed to %s: %s",
                text(failure, "job_name"), text(failure, "task_index"), text(failure, "node_id"),
                text(failure, "executor_id"), text(failure, "host"), text(failure, "step"),
                text(failure, "message")));
  }

  /**
   * Whether the program of every node that could be fed has returned in order, except nodes that
   * the cluster was allowed to lose.
   */
  boolean programsHaveReturned() {
    Set<Integer> fed = new TreeSet<>();
    plan.get("endpoints").forEach(endpoint -> fed.add(endpoint.get("node_id").asInt()));
    Optional<JsonNode> status = ask("/v1/status", TIMEOUT_MS);
    if (status.isEmpty() || !status.get().path("failure").isNull()) {
      return false;
    }
    for (JsonNode node : status.get().path("nodes")) {
      if (fed.contains(node.path("node_id").asInt()) && !ENDED.contains(text(node, "state"))) {
        return false;
      }
    }
    return true;
  }

  /** Its answer; none when it has none to give or is gone itself. */
  private Optional<JsonNode> ask(String target, int timeoutMs) {
    try {
      URI uri = URI.create("http://" + plan.get("coordinator").asText() + target);
      // Never through a proxy of the environment: the address is inside the cluster.
      var connection = (HttpURLConnection) uri.toURL().openConnection(Proxy.NO_PROXY);
      connection.setConnectTimeout(timeoutMs);
      connection.setReadTimeout(timeoutMs);
      connection.setRequestProperty("Authorization", "Bearer " + plan.get("token").asText());
      try {
        if (connection.getResponseCode() != HttpURLConnection.HTTP_OK) {
          return Optional.empty();
        }
        try (InputStream answer = connection.getInputStream()) {
          return Optional.of(JSON.readTree(answer));
        }
      } finally {
        connection.disconnect();
      }
    } catch (IOException gone) {
      return Optional.empty();
    }
  }

  private static String text(JsonNode object, String field) {
    return object.path(field).asText("?");
  }
}
