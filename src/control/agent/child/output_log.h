#ifndef TFOS_CONTROL_AGENT_CHILD_OUTPUT_LOG_H_
#define TFOS_CONTROL_AGENT_CHILD_OUTPUT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfos::control {

/// The end of an output: for those who ask for it, and for the message about its writer's end.
///
/// Owner and lifetime: a value; owns the bytes. Threads: one at a time. Errors: none.
/// Units: positions count all bytes that were ever added, from 0.
class OutputLog {
 public:
  /// As much is kept at least, if there was as much. A quarter more at most.
  static constexpr std::size_t kKeptBytes = 1u << 20;
  static constexpr std::size_t kMaxLines = 50;        ///< Of `LastLines`.
  static constexpr std::size_t kMaxLineBytes = 2000;  ///< There, longer lines are cut.

  struct Piece {
    std::int64_t from = 0;  ///< The position of its first byte.
    std::string_view text;  ///< Until the next call of Add.
  };

  void Add(std::string_view text);

  /// The position behind the last byte.
  std::int64_t end() const { return begin_ + static_cast<std::int64_t>(kept_.size()); }
  /// What follows a position, or the oldest byte that is kept: at most so many bytes. Where there
  /// are more, it ends with a line if it can.
  Piece After(std::int64_t position, std::size_t most_bytes) const;
  /// The last lines: so many of them, and so many bytes at most.
  Piece Last(std::size_t lines, std::size_t most_bytes) const;
  /// The last lines for a message.
  std::vector<std::string> LastLines() const;

 private:
  std::string kept_;
  std::int64_t begin_ = 0;  ///< The position of the first byte of it.
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_OUTPUT_LOG_H_
