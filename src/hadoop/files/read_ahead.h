#ifndef TFOS_HADOOP_FILES_READ_AHEAD_H_
#define TFOS_HADOOP_FILES_READ_AHEAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/thread/mutex.h"
#include "hadoop/files/file_system.h"
#include "hadoop/files/positioned_source.h"
#include "hadoop/files/stream_thread.h"

namespace tfos::hadoop {

/// Reads ahead for a reader that goes from the beginning to the end, and not for one that jumps.
///
/// A read that begins where the one before has ended is sequential, and so is the first at 0. They
/// are served from a window that starts at 64 KiB and doubles up to 1 MiB. From the second window
/// on the next one is read meanwhile, in a thread of the file's own; large reads go straight into
/// the caller's memory until then. Others, and those of a second thread that comes while one
/// reads the stream, take exactly the bytes that were asked for. With a jump and at the end of the
/// file the thread ends, and all but the first 64 KiB is freed.
///
/// The file may grow, as an event file does while TensorBoard waits at its end. A read that comes
/// to the same end again has the source look for more. The one that only hears that nothing follows
/// the bytes just read does not, so that those that read a file once need no such look.
///
/// Owner and lifetime: owns its source; holds up to 2 MiB while it is being read sequentially. The
/// destructor waits for what is being read. Threads: any number at a time. Errors: those of the
/// source, when the bytes are asked for that could not be read, or when it can't be said whether
/// there are more; the next read tries again.
class ReadAhead : public ReadableFile {
 public:
  static constexpr std::size_t kFirstWindow = std::size_t{64} << 10;
  static constexpr std::size_t kLastWindow = std::size_t{1} << 20;
  /// From so many bytes on a read is not worth a copy out of a window that must be read first.
  static constexpr std::size_t kLargeRead = std::size_t{128} << 10;

  explicit ReadAhead(std::unique_ptr<PositionedSource> source)
      : source_(std::move(source)), thread_(*source_) {}

  Result<std::size_t> Read(std::uint64_t offset, std::span<std::byte> room) override;

 private:
  static constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

  /// Reads without a look for more.
  Result<std::size_t> ReadNow(std::uint64_t offset, std::span<std::byte> room)
      TFOS_EXCLUDES(mutex_);
  /// What is read next is sequential if it begins at `offset`. Frees what was for reading ahead.
  void BeginRun(std::uint64_t offset) TFOS_REQUIRES(mutex_);
  /// How much of `room` the window holds from `offset` on, having copied it.
  std::size_t TakeFromWindow(std::uint64_t offset, std::span<std::byte> room) const
      TFOS_REQUIRES(mutex_);
  Result<std::size_t> ReadSequentially(std::uint64_t offset, std::span<std::byte> room)
      TFOS_REQUIRES(mutex_);
  /// Has the window begin at `offset`.
  Status NextWindow(std::uint64_t offset) TFOS_REQUIRES(mutex_);
  /// Begins to read what follows a piece, unless that is the first of its run: most small files
  /// end there.
  void ReadOn(std::uint64_t begin, std::uint64_t end) TFOS_REQUIRES(mutex_);

  const std::unique_ptr<PositionedSource> source_;
  Mutex mutex_;
  Window window_ TFOS_GUARDED_BY(mutex_);
  std::size_t next_window_ TFOS_GUARDED_BY(mutex_) = kFirstWindow;
  std::uint64_t next_offset_ TFOS_GUARDED_BY(mutex_) = 0;  ///< Where the last read has ended.
  std::uint64_t run_start_ TFOS_GUARDED_BY(mutex_) = 0;    ///< Where sequential reading began.
  StreamThread thread_ TFOS_GUARDED_BY(mutex_);            ///< Ends before what it reads from.

  std::atomic<std::uint64_t> end_ = kNoEnd;  ///< Where a read came short last.
  std::atomic<bool> just_ended_ = false;     ///< The last read did, having read some bytes.
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_READ_AHEAD_H_
