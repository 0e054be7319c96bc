#ifndef TFOS_HADOOP_FILES_HADOOP_FILE_H_
#define TFOS_HADOOP_FILES_HADOOP_FILE_H_

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/thread/mutex.h"
#include "hadoop/files/file_system.h"
#include "hadoop/files/positioned_source.h"
#include "hadoop/java/client.h"

namespace tfos::hadoop {

/// A file by an FSDataInputStream of Java. HDFS fixes how long the file is when a stream is opened,
/// so `LookForMore` opens another one, and keeps it only if it has more. If another file has taken
/// the path meanwhile and is longer, its bytes follow.
///
/// Owner and lifetime: keeps `stream` by a global reference and closes it when destroyed; borrows
/// `client`. Threads and errors: as PositionedSource has them.
class HadoopSource : public PositionedSource {
 public:
  HadoopSource(Client& client, const Call& call, jobject stream, std::string path);
  ~HadoopSource() override;

  Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) override;
  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> room) override;
  Result<bool> LookForMore(std::uint64_t offset) override;

 private:
  class Stream;

  std::shared_ptr<Stream> Current() TFOS_EXCLUDES(mutex_);
  Result<std::size_t> ReadAt(const Call& call, const Stream& stream, std::uint64_t offset,
                             std::span<std::byte> room);

  Client& client_;
  const std::string path_;
  Mutex look_mutex_;  ///< Taken before `mutex_`.
  Mutex mutex_;
  /// Those that read from it share it: another one may come in its place meanwhile.
  std::shared_ptr<Stream> stream_ TFOS_GUARDED_BY(mutex_);
};

/// An FSDataOutputStream of Java.
///
/// Owner and lifetime: keeps `stream` by a global reference; borrows `client`. Threads and errors:
/// as WritableFile has them.
class HadoopWritableFile : public WritableFile {
 public:
  HadoopWritableFile(Client& client, const Call& call, jobject stream, std::string path);
  ~HadoopWritableFile() override;

  Status Append(std::span<const std::byte> bytes) override;
  Status Flush() override;
  Status Sync() override;
  Result<std::uint64_t> Tell() override;
  Status Close() override;
  void Discard() override;

 private:
  /// A call into Java, unless the file is closed.
  Result<std::unique_ptr<Call>> Begin();
  Status Invoke(jmethodID HadoopMethods::*method, const char* doing);

  Client& client_;
  const std::string path_;
  jobject stream_;  ///< Null once closed.
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_HADOOP_FILE_H_
