#ifndef TFOS_CONTROL_AGENT_REPEATED_WARNINGS_H_
#define TFOS_CONTROL_AGENT_REPEATED_WARNINGS_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::control {

/// What a program does wrong, it does again and again: the log says it once.
///
/// Threads: one at a time. Errors: none; after kMost different warnings nothing more is logged.
class RepeatedWarnings {
 public:
  void Log(std::string warning) {
    if (logged_.size() == kMost || !logged_.insert(warning).second) return;
    LogWarning("{}", warning);
  }

  void LogUnknown(std::string_view from, std::string_view type) {
    Log(
        fmt::format("messages of type '{}' from the {} are ignored: this version does not know "
                    "them",
                    type, from));
  }

 private:
  static constexpr std::size_t kMost = 32;

  std::set<std::string> logged_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_REPEATED_WARNINGS_H_
