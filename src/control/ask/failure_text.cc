#include "control/ask/failure_text.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/printable.h"
#include "base/text/json_fields.h"

namespace tfos::control {
namespace {

using nlohmann::json;

/// A member as text; "?" for one that is missing, empty or no plain value.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "?";
  if (found->is_number()) return found->dump();
  if (!found->is_string()) return "?";
  const auto& text = found->get_ref<const std::string&>();
  return text.empty() ? "?" : text;
}

std::string Head(const json& failure) {
  const auto node = failure.find("node_id");
  const std::string what = TextOf(failure, "step") + ": " + TextOf(failure, "message");
  if (node == failure.end() || !node->is_number_integer() || node->get<std::int64_t>() < 0) {
    return "the cluster failed: " + what;
  }
  return fmt::format("{}:{} (node {}, executor {} on {}) failed to {}", TextOf(failure, "job_name"),
                     TextOf(failure, "task_index"), TextOf(failure, "node_id"),
                     TextOf(failure, "executor_id"), TextOf(failure, "host"), what);
}

std::string WithoutTrailingSpace(const std::string& text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

/// That are shown below a traceback.
constexpr std::size_t kMostLines = 20;

using Lines = std::vector<std::string>;

Lines LinesOf(const std::string& text) {
  Lines lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

Lines TailOf(const json& failure) {
  Lines lines;
  const auto tail = failure.find("log_tail");
  if (tail == failure.end() || !tail->is_array()) return lines;
  for (const json& line : *tail) {
    lines.push_back(line.is_string() ? line.get<std::string>() : line.dump());
  }
  return lines;
}

/// The lines without the traceback, which a node writes as its last words.
Lines Without(const Lines& traceback, Lines lines) {
  const auto whole = std::ranges::search(lines, traceback);
  if (!whole.empty() && !traceback.empty()) {
    lines.erase(whole.begin(), whole.end());
    return lines;
  }
  // The lines have only the end of a long traceback.
  for (std::size_t count = std::min(lines.size(), traceback.size()); count > 0; --count) {
    const auto most = static_cast<std::ptrdiff_t>(count);
    if (!std::equal(traceback.end() - most, traceback.end(), lines.begin())) continue;
    lines.erase(lines.begin(), lines.begin() + most);
    break;
  }
  return lines;
}

/// Where all is that the node has written; empty where that is not known.
std::string WhereAllIs(const json& failure) {
  const std::string executor = TextOf(failure, "executor_id");
  if (executor == "?") return "";
  if (executor == "driver") return "\nAll of its output is in the driver's.";
  return fmt::format("\nAll of its output is in the stderr of executor {} on {}.", executor,
                     TextOf(failure, "host"));
}

}  // namespace

Result<std::string> FailureText(std::string_view failure) {
  TFOS_ASSIGN_OR_RETURN(const json object, ParseJsonObject(failure, failure.size(), "the failure"));
  std::string text = Head(object);
  const Lines all = TailOf(object);
  Lines lines = all;
  const auto traceback = object.find("traceback");
  if (traceback != object.end() && traceback->is_string() &&
      !traceback->get_ref<const std::string&>().empty()) {
    const std::string trace = WithoutTrailingSpace(traceback->get_ref<const std::string&>());
    text += "\nRemote traceback:\n" + trace;
    lines = Without(LinesOf(trace), std::move(lines));
    while (!lines.empty() && WithoutTrailingSpace(lines.back()).empty()) lines.pop_back();
    if (lines.size() > kMostLines) {
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines));
    }
  }
  if (!lines.empty()) text += "\nIts last lines:";
  for (const std::string& line : lines) text += "\n  " + line;
  if (!all.empty()) text += WhereAllIs(object);
  return PrintableLines(text);
}

}  // namespace tfos::control
