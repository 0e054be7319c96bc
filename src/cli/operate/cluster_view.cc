#include "cli/operate/cluster_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/printable.h"
#include "control/ask/failure_text.h"

namespace tfos::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 12;
using Row = std::array<std::string, kColumns>;
/// Numbers are on the right.
constexpr std::array<bool, kColumns> kOnTheRight = {false, false, true, false, true, true,
                                                    true,  true,  true, true,  true, false};
/// Columns that are left out where no node has such a number.
constexpr std::array<bool, kColumns> kIfAny = {false, false, false, false, false, false,
                                               false, false, false, true,  true,  false};
const char* const kUnknown = "-";
constexpr std::size_t kLongestDetail = 60;
constexpr std::size_t kMostNames = 8;

std::string Text(const json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? Printable(field->get<std::string>()) : "";
}

std::string Number(const json& object, const char* name, int digits = 0) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number()) return kUnknown;
  return fmt::format("{:.{}f}", field->get<double>(), digits);
}

const json& Nothing() {
  static const json kNothing = json::object();
  return kNothing;
}

const json& At(const json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : Nothing();
}

/// A process that has ended has no number.
std::string Pid(const json& node) {
  const std::string pid = Number(node, "pid");
  return pid == "0" ? kUnknown : pid;
}

std::string Memory(const json& metrics, const char* name) {
  const auto bytes = metrics.find(name);
  if (bytes == metrics.end() || !bytes->is_number()) return kUnknown;
  return fmt::format("{:.2f} GiB", bytes->get<double>() / (1u << 30));
}

std::string Percent(const json& metrics, const char* name) {
  const auto share = metrics.find(name);
  if (share == metrics.end() || !share->is_number()) return kUnknown;
  return fmt::format("{:.0f} %", 100 * share->get<double>());
}

/// "worker:1".
std::string NameOf(const json& node) {
  return fmt::format("{}:{}", Text(node, "job_name"), Number(node, "task_index"));
}

/// As the page says it: "running (loss nan)".
std::string StateOf(const json& node, const json& metrics) {
  const std::string state = Text(node, "state");
  const std::string loss = Text(metrics, "loss");
  const bool diverged = loss == "nan" || loss == "inf" || loss == "-inf";
  return diverged ? fmt::format("{} (loss {})", state, loss) : state;
}

/// "5ad695f9000fc90b (my-app)", or the id alone where the application has no name.
std::string ClusterName(const json& status) {
  const std::string id = Text(status, "cluster_id");
  const std::string name = Text(status, "name");
  return name.empty() ? id : fmt::format("{} ({})", id, name);
}

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// Every line without what is beyond the width. A character counts as one column.
std::string CutLines(const std::string& text, std::size_t width) {
  std::string cut;
  std::size_t column = 0;
  for (const char c : text) {
    if (c == '\n') {
      column = 0;
      cut += c;
      continue;
    }
    if (BeginsCharacter(c)) ++column;
    if (column <= width) cut += c;
  }
  return cut;
}

bool IsFinal(const std::string& state) {
  return state == "done" || state == "failed" || state == "lost" || state == "stopped";
}

Row RowOf(const json& status, const json& node) {
  const std::string id = Number(node, "node_id");
  const json& metrics = At(At(status, "metrics"), id);
  const json& rates = At(At(status, "rates"), id);
  // What a node held, it holds no longer once it has ended.
  const json& held = IsFinal(Text(node, "state")) ? Nothing() : metrics;
  std::string detail = Text(node, "detail");
  if (detail.size() > kLongestDetail) {
    std::size_t end = kLongestDetail;
    while (end > 0 && !BeginsCharacter(detail[end])) --end;
    detail = detail.substr(0, end) + "...";
  }
  return {fmt::format("{}:{}", Text(node, "job_name"), Number(node, "task_index")),
          Text(node, "host"),
          Pid(node),
          StateOf(node, metrics),
          Number(metrics, "step"),
          Number(rates, "step", 1),
          Number(metrics, "rows"),
          Number(rates, "rows", 0),
          Memory(held, "rss_bytes"),
          Percent(held, "gpu_utilization"),
          Memory(held, "gpu_memory_bytes"),
          std::move(detail)};
}

/// Zero: the column is left out. `rows`: the first has the names of the columns.
std::array<std::size_t, kColumns> Widths(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (std::size_t i = 0; i < kColumns; ++i) {
    const bool any = std::any_of(rows.begin() + 1, rows.end(),
                                 [&](const Row& row) { return row[i] != kUnknown; });
    if (kIfAny[i] && !any) continue;
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Line(const Row& row, const std::array<std::size_t, kColumns>& widths) {
  std::string line;
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (widths[i] == 0) continue;
    line += kOnTheRight[i] ? fmt::format("{:>{}}", row[i], widths[i])
                           : fmt::format("{:<{}}", row[i], widths[i]);
    line += "  ";
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + '\n';
}

}  // namespace

Result<ClusterView> ClusterView::Ask(const ClusterAccess& cluster,
                                     std::chrono::milliseconds patience) {
  TFOS_ASSIGN_OR_RETURN(std::string body, cluster.Get("/v1/status", patience));
  return Parse(std::move(body));
}

Result<ClusterView> ClusterView::Parse(std::string body) {
  ClusterView view;
  view.status_ = json::parse(body, nullptr, false);
  const auto nodes = view.status_.is_object() ? view.status_.find("nodes") : view.status_.end();
  const bool good = view.status_.is_object() && nodes != view.status_.end() && nodes->is_array() &&
                    std::ranges::all_of(*nodes, [](const json& node) { return node.is_object(); });
  if (!good) {
    return Status(ErrorKind::kBug, "what answers is not a coordinator of tfos: it sent no status");
  }
  view.body_ = std::move(body);
  return view;
}

bool ClusterView::has_failed() const {
  const auto failure = status_.find("failure");
  return failure != status_.end() && failure->is_object();
}

bool ClusterView::has_ended() const {
  return std::ranges::all_of(status_["nodes"],
                             [](const json& node) { return IsFinal(Text(node, "state")); });
}

std::string ClusterView::Table(std::size_t most_lines, std::size_t width) const {
  const json& nodes = status_.at("nodes");
  std::vector<Row> rows = {{"node", "host", "pid", "state", "step", "steps/s", "rows", "rows/s",
                            "memory", "GPU", "GPU memory", "doing"}};
  for (const json& node : nodes) rows.push_back(RowOf(status_, node));
  const std::array<std::size_t, kColumns> widths = Widths(rows);
  std::string text = fmt::format("cluster {}: {}, {} node{}\n", ClusterName(status_),
                                 has_failed()  ? "failed"
                                 : has_ended() ? "ended"
                                               : "running",
                                 nodes.size(), nodes.size() == 1 ? "" : "s");
  if (const std::string progress = Text(At(status_, "progress"), "text"); !progress.empty()) {
    text += progress + '\n';
  }
  // Room for the lines above, and for one that says what is left out.
  const auto above = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  const std::size_t shown = rows.size() + above <= most_lines
                                ? rows.size()
                                : std::max<std::size_t>(most_lines, above + 2) - above - 1;
  for (std::size_t i = 0; i < shown; ++i) text += Line(rows[i], widths);
  if (const std::size_t more = rows.size() - shown; more > 0) {
    text += fmt::format("... and {} more node{}\n", more, more == 1 ? "" : "s");
  }
  if (has_failed()) {
    const auto failure = control::FailureText(status_.at("failure").dump());
    if (failure.ok()) text += *failure + '\n';
  }
  return CutLines(text, width);
}

Result<int> ClusterView::NodeNumber(std::string_view name) const {
  std::string known;
  std::size_t count = 0;
  for (const json& node : status_.at("nodes")) {
    const std::string number = Number(node, "node_id");
    const std::string role = NameOf(node);
    const auto id = node.find("node_id");
    const bool fits = name == number || name == role;
    if (fits && id != node.end() && id->is_number_integer()) return id->get<int>();
    if (count++ < kMostNames) known += (known.empty() ? "" : ", ") + role;
  }
  if (count > kMostNames) known += ", ...";
  return Status(ErrorKind::kBadInput,
                fmt::format("the cluster has no node '{}'; it has {}", name, known));
}

std::vector<std::string> ClusterView::NodeNames() const {
  std::vector<std::string> names;
  for (const json& node : status_.at("nodes")) names.push_back(NameOf(node));
  return names;
}

}  // namespace tfos::cli
