#ifndef TFOS_HADOOP_FILES_STREAM_THREAD_H_
#define TFOS_HADOOP_FILES_STREAM_THREAD_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hadoop/files/positioned_source.h"

namespace tfos::hadoop {

/// A piece of a file.
struct Window {
  std::uint64_t start = 0;      ///< Where in the file, bytes.
  std::vector<std::byte> room;  ///< Its size is what was asked for.
  std::size_t bytes = 0;        ///< What it holds; fewer than asked for where the file ends.
  bool ended = false;           ///< The file ended before the window was full.

  std::uint64_t end() const { return start + bytes; }
  /// Reads the stream of `source` from `from` on into `room`; holds nothing after a failure. Frees
  /// `room` where there is nothing in it.
  Status Fill(PositionedSource& source, std::uint64_t from);
};

/// Reads a file's stream in a thread of its own, one window at a time, while somebody makes use of
/// the one before.
///
/// Owner and lifetime: of one ReadAhead; borrows `source`. A `Start` starts the thread where there
/// is none. It ends after a window in which the file ended or that could not be read, and after
/// `Stop`. So a file that is only open costs no thread, nor what a thread holds in Java. The
/// destructor waits for a read that is under way. In a forked child, where there is no such thread,
/// what it holds is left alone.
/// Threads: one at a time; nobody else may read the stream between `Start` and `Take`, nor between
/// `Stop` and `Join`.
class StreamThread {
 public:
  explicit StreamThread(PositionedSource& source);
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// Begins to read `bytes` from `start` on. Nothing is under way where there can be no thread.
  void Start(std::uint64_t start, std::size_t bytes);
  /// Whether a window is under way, or waits to be taken; never in a forked child.
  bool pending() const;
  /// Waits for it; the memory of `window` is used for the next one. Errors: those of the source.
  Status Take(Window& window);
  /// Has the thread end, and gives up what it reads or has read. Waits for nothing.
  void Stop();
  /// Waits until a thread that was told to stop has ended.
  void Join();

 private:
  struct Shared;

  PositionedSource& source_;
  std::unique_ptr<Shared> shared_;  ///< What the thread sees; null while there is none.
  pid_t process_ = 0;
  bool pending_ = false;
  bool stopping_ = false;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_STREAM_THREAD_H_
