#ifndef TFOS_BASE_TEXT_LINE_BUFFER_H_
#define TFOS_BASE_TEXT_LINE_BUFFER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos {

/// Cuts a stream of bytes into lines, with a limit on how long a line may get.
///
/// Owner and lifetime: a value; owns the bytes that were not taken yet. Threads: one at a time.
/// Errors: a line longer than the limit is bad input, and so is everything after it.
/// Units: lengths are bytes, without the line feed.
///
/// A stream may switch to raw bytes between two lines: take them with `TakeRaw`.
class LineBuffer {
 public:
  explicit LineBuffer(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  void Append(std::string_view bytes) { data_.append(bytes); }

  /// A line without its line feed; nullopt while no complete line is there; a Status once the line
  /// that has begun is over the limit.
  Result<std::optional<std::string>> NextLine();

  /// Up to `max_bytes` bytes as they came; fewer, or none, when fewer are there.
  std::string TakeRaw(std::size_t max_bytes);

 private:
  void Consume(std::size_t bytes);

  std::size_t max_line_bytes_;
  std::string data_;
  std::size_t begin_ = 0;    // where the bytes not taken yet start
  std::size_t scanned_ = 0;  // bytes after begin_ that are known to hold no line feed
};

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_LINE_BUFFER_H_
