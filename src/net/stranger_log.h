#ifndef TFOS_NET_STRANGER_LOG_H_
#define TFOS_NET_STRANGER_LOG_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/logging.h"
#include "base/time/deadline.h"

namespace tfos::net {

/// The log about strangers, who may come and err as often as they like: it gets a bounded number of
/// lines about that in a while. Threads: one at a time.
class StrangerLog {
 public:
  void Write(std::string_view line) {
    const auto now = Clock::Steady().Now();
    if (now - begun_ >= kWhile) {
      if (lines_ > kLines) {
        LogWarning("{} more lines about strangers were left out", lines_ - kLines);
      }
      begun_ = now;
      lines_ = 0;
    }
    if (++lines_ <= kLines) LogWarning("{}", line);
  }

 private:
  static constexpr int kLines = 20;
  static constexpr std::chrono::seconds kWhile{10};

  Clock::TimePoint begun_ = Clock::Steady().Now();
  std::int64_t lines_ = 0;
};

}  // namespace tfos::net

#endif  // TFOS_NET_STRANGER_LOG_H_
