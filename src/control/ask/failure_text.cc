#include "control/ask/failure_text.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
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

}  // namespace

Result<std::string> FailureText(std::string_view failure) {
  TFOS_ASSIGN_OR_RETURN(const json object, ParseJsonObject(failure, failure.size(), "the failure"));
  std::string text = Head(object);
  const auto traceback = object.find("traceback");
  if (traceback != object.end() && traceback->is_string() &&
      !traceback->get_ref<const std::string&>().empty()) {
    return text + "\nRemote traceback:\n" +
           WithoutTrailingSpace(traceback->get_ref<const std::string&>());
  }
  const auto tail = object.find("log_tail");
  if (tail != object.end() && tail->is_array() && !tail->empty()) {
    text += "\nIts last lines:";
    for (const json& line : *tail) {
      text += "\n  " + (line.is_string() ? line.get<std::string>() : line.dump());
    }
  }
  return text;
}

}  // namespace tfos::control
