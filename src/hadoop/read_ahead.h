#ifndef TFOS_HADOOP_READ_AHEAD_H_
#define TFOS_HADOOP_READ_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "hadoop/file_system.h"

namespace tfos::hadoop {

/// A file that knows two ways of reading: as a stream, which is fast and has one position, and at
/// any place by itself, which many threads may do at a time.
///
/// Owner and lifetime: of the ReadAhead that it is given to. Errors: those of the file.
class PositionedSource {
 public:
  virtual ~PositionedSource() = default;

  /// Fills `room` from `offset`; fewer bytes than that only where the file ends. One thread at a
  /// time; cheapest where the call before has ended.
  virtual Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) = 0;
  /// The same, for any number of threads and beside `ReadStream`.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> room) = 0;
};

/// Reads ahead for whoever reads from the beginning to the end, and nothing for whoever jumps.
///
/// A read that begins where the one before has ended is sequential, and so is the first at 0. Small
/// sequential reads are served from a window that starts at 64 KiB and doubles up to 1 MiB; large
/// ones go straight into the caller's memory. Others, and those of a second thread that comes while
/// one reads the stream, take exactly the bytes that were asked for.
///
/// Owner and lifetime: owns its source; holds up to 1 MiB while it is being read sequentially.
/// Threads: any number at a time. Errors: those of the source; the window is empty then.
class ReadAhead : public ReadableFile {
 public:
  static constexpr std::size_t kFirstWindow = std::size_t{64} << 10;
  static constexpr std::size_t kLastWindow = std::size_t{1} << 20;
  /// From so many bytes on a read is not worth a copy out of the window.
  static constexpr std::size_t kLargeRead = std::size_t{128} << 10;

  explicit ReadAhead(std::unique_ptr<PositionedSource> source) : source_(std::move(source)) {}

  Result<std::size_t> Read(std::uint64_t offset, std::span<std::byte> room) override;

 private:
  /// How much of `room` the window holds from `offset` on, having copied it. Needs `mutex_`.
  std::size_t TakeFromWindow(std::uint64_t offset, std::span<std::byte> room) const;
  /// Needs `mutex_`.
  Result<std::size_t> ReadSequentially(std::uint64_t offset, std::span<std::byte> room);
  /// Needs `mutex_`.
  Status FillWindow(std::uint64_t offset);

  const std::unique_ptr<PositionedSource> source_;
  std::mutex mutex_;
  std::vector<std::byte> window_;   ///< Its size is its room, not what it holds.
  std::size_t window_bytes_ = 0;    ///< What it holds.
  std::uint64_t window_start_ = 0;  ///< Where in the file.
  std::size_t next_window_ = kFirstWindow;
  std::uint64_t next_offset_ = 0;  ///< Where the last read has ended.
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_READ_AHEAD_H_
