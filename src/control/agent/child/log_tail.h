#ifndef TFOS_CONTROL_AGENT_CHILD_LOG_TAIL_H_
#define TFOS_CONTROL_AGENT_CHILD_LOG_TAIL_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tfos::control {

/// The last lines of an output, for the message about its writer's end.
///
/// Owner and lifetime: a value; owns the lines. Threads: one at a time.
class LogTail {
 public:
  static constexpr std::size_t kMaxLines = 50;
  static constexpr std::size_t kMaxLineBytes = 2000;  ///< Longer lines are cut.

  /// Adds the lines of `text`, which holds whole lines (the last one's end may be missing).
  void Add(std::string_view text);

  std::vector<std::string> Lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_LOG_TAIL_H_
