#ifndef TFOS_HADOOP_FILES_BUFFERED_FILE_H_
#define TFOS_HADOOP_FILES_BUFFERED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "hadoop/files/file_system.h"

namespace tfos::hadoop {

/// A file with a buffer before it, as TensorFlow writes records in pieces of a few bytes.
///
/// Owner and lifetime: owns the file. Threads: any, one after the other; the file need not take
/// more than one. Errors: as WritableFile has them. After one of `Append`, `Flush` or `Sync` the
/// end of the file is lost, and all that follows says the same.
class BufferedFile : public WritableFile {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  explicit BufferedFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  ~BufferedFile() override;

  Status Append(std::span<const std::byte> bytes) override;
  Status Flush() override;
  Status Sync() override;
  Result<std::uint64_t> Tell() override;
  Status Close() override;
  void Discard() override;

 private:
  /// Writes the buffer, and then does the same with the file.
  Status PassOn(Status (WritableFile::*operation)()) TFOS_EXCLUDES(mutex_);
  Status WriteBuffer() TFOS_REQUIRES(mutex_);
  /// What `operation` returns, which is kept. What it throws, as for want of memory, is kept, too.
  template <typename Operation>
  Status Keep(Operation operation) TFOS_REQUIRES(mutex_);

  Mutex mutex_;
  const std::unique_ptr<WritableFile> file_ TFOS_POINTEE_GUARDED_BY(mutex_);
  std::vector<std::byte> buffer_ TFOS_GUARDED_BY(mutex_);
  Status failure_ TFOS_GUARDED_BY(mutex_);  ///< The first one.
  bool closed_ TFOS_GUARDED_BY(mutex_) = false;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_BUFFERED_FILE_H_
