#ifndef TFOS_HADOOP_FILES_HADOOP_FILE_H_
#define TFOS_HADOOP_FILES_HADOOP_FILE_H_

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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
