#ifndef TFOS_TESTING_STUCK_LOG_H_
#define TFOS_TESTING_STUCK_LOG_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

#include "base/logging.h"
#include "base/process/unique_fd.h"

namespace tfos::testing {

/// A standard error that takes the beginning of a line and no more, as the pipe of a log whose disk
/// is slow.
///
/// Owner and lifetime: a local of a test; afterwards the process has its standard error again, and
/// a log on it. Threads: that of the test. Those that write stand still until ReadUntil.
class StuckLog {
 public:
  StuckLog() : before_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]);
    const UniqueFd writer(ends[1]);
    const int room = ::fcntl(writer.get(), F_GETPIPE_SZ);
    EXPECT_GT(room, 0);
    ::dup2(writer.get(), STDERR_FILENO);
    // Each line begins with more than the pipe holds.
    SetUpLogging(std::string(static_cast<std::size_t>(room) + 1, '-'), "INFO");
  }
  ~StuckLog() {
    ::dup2(before_.get(), STDERR_FILENO);
    SetUpLogging("test", "INFO");
  }
  StuckLog(const StuckLog&) = delete;
  StuckLog& operator=(const StuckLog&) = delete;

  /// Until somebody stands still in writing a line.
  void AwaitWriter() {
    pollfd readable{.fd = reader_.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, kPatienceMilliseconds), 1);
  }

  /// Lets them go on, until a line with `text` was written to its end.
  void ReadUntil(const std::string& text) {
    std::string seen;
    while (seen.find('\n', seen.find(text)) == std::string::npos) {
      std::array<char, 65536> some{};
      const ssize_t got = ::read(reader_.get(), some.data(), some.size());
      ASSERT_GT(got, 0);
      seen.append(some.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  static constexpr int kPatienceMilliseconds = 60'000;

  const UniqueFd before_;
  UniqueFd reader_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_STUCK_LOG_H_
