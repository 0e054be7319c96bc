package tfos.internal.ui;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import tfos.internal.base.Json;

/**
 * The tab's content: all clusters of an application, and one with its nodes. What is missing, or not
 * what it should be, is left empty: event logs may be of another version of tfos. Threads: any.
 */
final class ClusterHtml {
  private static final Set<String> ENDED = Set.of("ended", "failed", "stopped");
  private static final String[] NODE_HEADS = {
    "Node", "Host", "Executor", "State", "Step", "Steps/s", "Loss", "Rows read", "Rows/s"
  };
  private static final String[] CLUSTER_HEADS = {
    "Cluster", "State", "Started", "Duration", "Nodes", "Training"
  };

  /** The first characters of a failure's message, which tell it from other texts: how many. */
  private static final int COMPARED = 500;

  private ClusterHtml() {}

  /**
   * {@code asked}: the cluster whose nodes are wanted; the latest, where it is null or not known.
   * {@code isPassedOn}: whether this UI passes on the page of the cluster with this id. {@code live}:
   * whether the application runs in this process.
   */
  static String page(
      List<ClusterRecord> records, String asked, Predicate<String> isPassedOn, boolean live) {
    if (records.isEmpty()) {
      return "<p>No cluster has started yet.</p>";
    }
    ClusterRecord shown = records.stream().filter(record -> record.id.equals(asked)).findFirst()
        .orElse(records.get(0));
    String others = records.size() == 1 ? "" : overview(records, live);
    return others + one(Json.parse(shown.cluster), isPassedOn.test(shown.id), live);
  }

  private static String overview(List<ClusterRecord> records, boolean live) {
    StringBuilder html = new StringBuilder();
    html.append("<h4>Clusters (").append(records.size()).append(")</h4>").append(head(CLUSTER_HEADS));
    for (ClusterRecord record : records) {
      JsonNode cluster = Json.parse(record.cluster);
      String query = URLEncoder.encode(record.id, StandardCharsets.UTF_8);
      html.append("<tr><td><a href=\"?id=").append(Html.escaped(query)).append("\">")
          .append(Html.escaped(record.id)).append("</a></td>")
          .append(cell(state(cluster, live)))
          .append(cell(Html.moment(record.beganMs)))
          .append(cell(duration(cluster)))
          .append(cell(String.valueOf(cluster.path("nodes").size())))
          .append(cell(Html.text(cluster.path("progress").path("text")))).append("</tr>");
    }
    return html.append("</tbody></table>").toString();
  }

  private static String one(JsonNode cluster, boolean isPassedOn, boolean live) {
    JsonNode progress = cluster.path("progress");
    StringBuilder html = new StringBuilder();
    html.append("<h4>Cluster ").append(Html.text(cluster.path("id"))).append("</h4>")
        .append("<ul class=\"list-unstyled\">")
        .append(item("State", state(cluster, live)))
        .append(item("Started", Html.moment(cluster.path("began_ms").asLong())))
        .append(item("Last update", Html.moment(cluster.path("time_ms").asLong())
            + " (after " + duration(cluster) + ")"))
        .append(item("Training", Html.text(progress.path("text"))))
        .append(item("Ledger", ledger(cluster.path("ledger"))))
        .append(live && !hasEnded(cluster) ? item("Live page", links(cluster, isPassedOn)) : "")
        .append("</ul>")
        .append(bar(progress.path("done")))
        .append(failure(cluster.path("failure"), cluster.path("state").asText()))
        .append(nodes(cluster.path("nodes"), cluster.path("failure")));
    return html.toString();
  }

  private static boolean hasEnded(JsonNode cluster) {
    return ENDED.contains(cluster.path("state").asText());
  }

  private static String state(JsonNode cluster, boolean live) {
    String state = Html.text(cluster.path("state"));
    return live || hasEnded(cluster) ? state : state + " as of the last update";
  }

  private static String duration(JsonNode cluster) {
    return Html.duration(cluster.path("time_ms").asLong() - cluster.path("began_ms").asLong());
  }

  private static String ledger(JsonNode lines) {
    StringBuilder html = new StringBuilder();
    lines.forEach(line -> html.append(html.length() == 0 ? "" : "<br>").append(Html.text(line)));
    return html.toString();
  }

  /** Such as {@code 2 done, 10 running}, or {@code 0}. */
  private static String states(JsonNode nodes) {
    Map<String, Integer> counts = new TreeMap<>();
    nodes.forEach(node -> counts.merge(node.path("state").asText(), 1, Integer::sum));
    return counts.isEmpty() ? "0" : counts.entrySet().stream()
        .map(count -> count.getValue() + " " + Html.escaped(count.getKey()))
        .collect(Collectors.joining(", "));
  }

  /** Without the key, which Spark's UI and its event logs never have. */
  private static String links(JsonNode cluster, boolean isPassedOn) {
    String address = cluster.path("page").asText();
    if (!address.startsWith("http://") && !address.startsWith("https://")) {
      return "";
    }
    String direct = link(address, address);
    // Relative, so that it leads through the same proxies as this page.
    String below = ClusterTab.PAGES + "/" + cluster.path("id").asText() + "/";
    return (isPassedOn ? link(below, "in Spark's UI") + ", or at " + direct : direct)
        + " (it asks for the key, which is in the link that the driver has printed)";
  }

  private static String link(String address, String title) {
    return "<a href=\"" + Html.escaped(address) + "\">" + Html.escaped(title) + "</a>";
  }

  private static String bar(JsonNode done) {
    return done.isNumber() ? "<p><progress max=\"1\" value=\"" + done.doubleValue()
        + "\"></progress></p>" : "";
  }

  private static String failure(JsonNode failure, String state) {
    if (!failure.isObject()) {
      return "";
    }
    if (state.equals("stopped")) {
      return "<p>" + Html.text(failure.path("message")) + "</p>";
    }
    String where = Html.text(failure.path("node"));
    String host = Html.text(failure.path("host"));
    String step = Html.text(failure.path("step"));
    return "<h4>Failure</h4><p><strong>" + where + (host.isEmpty() ? "" : " on " + host)
        + (step.isEmpty() ? " failed" : where.isEmpty() ? "could not " : " failed to ") + step
        + "</strong></p><pre>" + Html.text(failure.path("message")) + "</pre>";
  }

  /** Empty where it only says once more why the cluster has failed. */
  private static String detail(JsonNode node, JsonNode failure) {
    String message = failure.path("message").asText();
    // The ends of both may be cut.
    String known = message.substring(0, Math.min(message.length(), COMPARED));
    boolean isKnown = !known.isEmpty() && node.path("detail").asText().contains(known);
    return isKnown ? "" : Html.text(node.path("detail"));
  }

  private static String nodes(JsonNode nodes, JsonNode failure) {
    StringBuilder html = new StringBuilder();
    html.append("<h4>Nodes (").append(states(nodes)).append(")</h4>").append(head(NODE_HEADS));
    for (JsonNode node : nodes) {
      String detail = detail(node, failure);
      html.append("<tr>").append(cell(Html.text(node.path("name"))))
          .append(cell(Html.text(node.path("host"))))
          .append(cell(Html.text(node.path("executor"))))
          .append(cell(Html.text(node.path("state")) + (detail.isEmpty() ? "" : " (" + detail + ")")))
          .append(cell(Html.number(node.path("step"))))
          .append(cell(Html.rate(node.path("steps_per_second"))))
          .append(cell(Html.number(node.path("loss"))))
          .append(cell(Html.number(node.path("rows"))))
          .append(cell(Html.rate(node.path("rows_per_second")))).append("</tr>");
    }
    return html.append("</tbody></table>").toString();
  }

  private static String head(String[] titles) {
    StringBuilder html = new StringBuilder();
    html.append("<table class=\"table table-bordered table-sm table-striped\"><thead><tr>");
    for (String title : titles) {
      html.append("<th>").append(title).append("</th>");
    }
    return html.append("</tr></thead><tbody>").toString();
  }

  private static String cell(String html) {
    return "<td>" + html + "</td>";
  }

  /** Nothing where there is nothing to say. */
  private static String item(String title, String html) {
    return html.isEmpty() ? "" : "<li><strong>" + title + ":</strong> " + html + "</li>";
  }
}
