#include "cli/doctor/check.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/format.h"

namespace tfos::cli {
namespace {

struct LevelName {
  CheckLevel level;
  std::string_view json;
  std::string_view text;
};

constexpr std::array kLevelNames = {
    LevelName{CheckLevel::kOk, "ok", "ok"},
    LevelName{CheckLevel::kWarn, "warn", "WARN"},
    LevelName{CheckLevel::kFail, "fail", "FAIL"},
};

const LevelName& NameOf(CheckLevel level) {
  return *std::ranges::find(kLevelNames, level, &LevelName::level);
}

std::optional<Check> ParseCheck(const nlohmann::json& entry) {
  const auto text = [&entry](const char* name) -> std::optional<std::string> {
    const auto field = entry.find(name);
    if (field == entry.end() || !field->is_string()) return std::nullopt;
    return field->get<std::string>();
  };
  if (!entry.is_object()) return std::nullopt;
  const auto level = text("level");
  auto what = text("what");
  auto found = text("found");
  auto advice = text("advice");
  if (!level || !what || !found || !advice) return std::nullopt;
  const auto name = std::ranges::find(kLevelNames, *level, &LevelName::json);
  if (name == kLevelNames.end()) return std::nullopt;
  return Check{name->level, std::move(*what), std::move(*found), std::move(*advice)};
}

}  // namespace

std::string FormatAsText(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{:<5} {}: {}", NameOf(check.level).text, check.what, check.found);
    if (!check.advice.empty()) text += fmt::format(" - {}", check.advice);
    text += '\n';
  }
  return text;
}

std::string FormatAsJson(const std::vector<Check>& checks) {
  auto entries = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    entries.push_back({{"level", NameOf(check.level).json},
                       {"what", check.what},
                       {"found", check.found},
                       {"advice", check.advice}});
  }
  // What commands print may hold any bytes; they must not stop the report.
  return entries.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<std::vector<Check>> ParseChecks(std::string_view json) {
  const auto entries = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!entries.is_array()) return Status(ErrorKind::kBadInput, "not a JSON array of checks");
  std::vector<Check> checks;
  for (const auto& entry : entries) {
    auto check = ParseCheck(entry);
    if (!check) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("entry {} of the array is not a check", checks.size()));
    }
    checks.push_back(std::move(*check));
  }
  return checks;
}

bool AnyFailed(const std::vector<Check>& checks) {
  return std::ranges::any_of(checks,
                             [](const Check& check) { return check.level == CheckLevel::kFail; });
}

}  // namespace tfos::cli
