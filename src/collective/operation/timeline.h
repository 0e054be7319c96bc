#ifndef TFOS_COLLECTIVE_OPERATION_TIMELINE_H_
#define TFOS_COLLECTIVE_OPERATION_TIMELINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/process/unique_fd.h"
#include "collective/operation/operation.h"
#include "tfos/status.h"

namespace tfos::collective {

/// The operations of one member as a Chrome trace (chrome://tracing, ui.perfetto.dev): one event
/// for each with its bytes, and within it how long it waited for members that had not begun it. The
/// file is complete JSON after every event, also when the process dies.
///
/// Owner and lifetime: of a Group. Threads: one at a time. Errors: of creating the file; one that
/// can't be written any more (a full disk) ends with a line in the log. Times in the file are
/// microseconds of the system's clock, so that those of several members can be laid side by side.
/// Cost: a system call for each operation.
class Timeline {
 public:
  /// Replaces what is at `path`. `member` is what the trace calls this one, `rank` orders it, and
  /// `transport` is shown beside its name.
  static Result<std::unique_ptr<Timeline>> Create(const std::string& path,
                                                  const std::string& member, std::uint32_t rank,
                                                  const std::string& transport);

  struct Event {
    Operation operation;
    std::size_t bytes = 0;
    std::chrono::system_clock::time_point begin;
    std::chrono::nanoseconds duration{};
    std::chrono::nanoseconds waited{};  ///< For members that had not begun it.
    bool failed = false;
  };
  void Add(const Event& event);

 private:
  Timeline(UniqueFd fd, std::string path, std::uint32_t rank)
      : fd_(std::move(fd)), path_(std::move(path)), rank_(rank) {}

  /// Puts `text` and the end of the file behind what is there.
  Status Append(const std::string& text);

  UniqueFd fd_;  ///< Invalid once writing has failed.
  const std::string path_;
  const std::uint32_t rank_;
  std::size_t bytes_ = 0;  ///< Without the end.
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_OPERATION_TIMELINE_H_
