#ifndef TFOS_HADOOP_FILES_HADOOP_FILE_H_
#define TFOS_HADOOP_FILES_HADOOP_FILE_H_

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "hadoop/files/file_system.h"
#include "hadoop/files/read_ahead.h"
#include "hadoop/java/client.h"

namespace tfos::hadoop {

/// An FSDataInputStream of Java.
///
/// Owner and lifetime: keeps `stream` by a global reference and closes it when destroyed; borrows
/// `client`. Threads and errors: as PositionedSource has them.
class HadoopSource : public PositionedSource {
 public:
  HadoopSource(Client& client, const Call& call, jobject stream, std::string path);
  ~HadoopSource() override;

  Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) override;
  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> room) override;

 private:
  Client& client_;
  const std::string path_;
  const jobject stream_;
  /// No read begins there.
  static constexpr std::uint64_t kUnknownPosition = ~std::uint64_t{0};
  std::uint64_t position_ = 0;  ///< Of the stream.
};

/// An FSDataOutputStream of Java with a buffer before it, as TensorFlow writes records in pieces of
/// a few bytes.
///
/// Owner and lifetime: keeps `stream` by a global reference; borrows `client`. Threads: any, one
/// after the other. Errors: as WritableFile has them. After one of `Append`, `Flush` or `Sync` the
/// end of the file is lost, and all that follows says the same.
class HadoopWritableFile : public WritableFile {
 public:
  HadoopWritableFile(Client& client, const Call& call, jobject stream, std::string path);
  ~HadoopWritableFile() override;

  Status Append(std::span<const std::byte> bytes) override;
  Status Flush() override;
  Status Sync() override;
  Result<std::uint64_t> Tell() override;
  Status Close() override;

 private:
  Status Invoke(jmethodID method, const char* doing) TFOS_REQUIRES(mutex_);
  Status WriteBuffer() TFOS_REQUIRES(mutex_);
  Status Write(std::span<const std::byte> bytes) TFOS_REQUIRES(mutex_);
  Status FlushBy(jmethodID HadoopMethods::*method, const char* doing) TFOS_EXCLUDES(mutex_);

  Client& client_;
  const std::string path_;
  Mutex mutex_;
  jobject stream_ TFOS_GUARDED_BY(mutex_);  ///< Null once closed.
  std::vector<std::byte> buffer_ TFOS_GUARDED_BY(mutex_);
  Status failure_ TFOS_GUARDED_BY(mutex_);  ///< The first one.
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_HADOOP_FILE_H_
