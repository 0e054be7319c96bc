#include "base/text/line_buffer.h"

#include <utility>

namespace tfos {

Result<std::optional<std::string>> LineBuffer::NextLine() {
  const std::size_t end = data_.find('\n', begin_ + scanned_);
  const std::size_t length = (end == std::string::npos ? data_.size() : end) - begin_;
  if (length > max_line_bytes_) {
    return Status(ErrorKind::kBadInput,
                  "a line is longer than " + std::to_string(max_line_bytes_) + " bytes");
  }
  if (end == std::string::npos) {
    scanned_ = length;
    return std::optional<std::string>();
  }
  std::string line = data_.substr(begin_, length);
  Consume(length + 1);
  return std::optional<std::string>(std::move(line));
}

std::string LineBuffer::TakeRaw(std::size_t max_bytes) {
  std::string bytes = data_.substr(begin_, max_bytes);
  Consume(bytes.size());
  return bytes;
}

void LineBuffer::Consume(std::size_t bytes) {
  begin_ += bytes;
  scanned_ = 0;
  // Moving the rest to the front only once most of the buffer is used up keeps the cost linear.
  if (begin_ * 2 >= data_.size()) {
    data_.erase(0, begin_);
    begin_ = 0;
  }
}

}  // namespace tfos
