#ifndef TFOS_CLI_DOCTOR_CHECK_H_
#define TFOS_CLI_DOCTOR_CHECK_H_

#include <string>
#include <string_view>
#include <vector>

#include "tfos/status.h"

namespace tfos::cli {

enum class CheckLevel {
  kOk,
  kWarn,  ///< Something works less well or not at all, yet clusters run.
  kFail,  ///< Clusters don't run on this host.
};

/// One line of a doctor's report. A value.
struct Check {
  CheckLevel level = CheckLevel::kOk;
  std::string what;
  std::string found;
  std::string advice;  ///< What to do; empty when the level is kOk.

  bool operator==(const Check&) const = default;
};

/// Lines of the form `ok    what: found` or `WARN  what: found - advice`.
std::string FormatAsText(const std::vector<Check>& checks);

/// A JSON array of objects with `level` ("ok", "warn", "fail"), `what`, `found` and `advice`.
std::string FormatAsJson(const std::vector<Check>& checks);

/// What FormatAsJson wrote. Bad input names the entry that is not a check.
Result<std::vector<Check>> ParseChecks(std::string_view json);

bool AnyFailed(const std::vector<Check>& checks);

}  // namespace tfos::cli

#endif  // TFOS_CLI_DOCTOR_CHECK_H_
