#ifndef TFOS_FILES_HADOOP_STREAMS_H_
#define TFOS_FILES_HADOOP_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "hadoop/files/file_system.h"
#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::files {

/// A file of a Hadoop file system as a stream of bytes. Its owner and its failures: ByteSource.
/// It reads ahead as the file does.
class HadoopSource : public records::ByteSource {
 public:
  HadoopSource(std::string name, std::unique_ptr<hadoop::ReadableFile> file, std::uint64_t offset)
      : name_(std::move(name)), file_(std::move(file)), offset_(offset) {}

  Result<std::size_t> Read(std::span<std::byte> room) override;
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const std::unique_ptr<hadoop::ReadableFile> file_;
  std::uint64_t offset_;  ///< Of the next byte, in the file.
};

/// The same for writing. Letting go of it without `Close` discards the file: it may be long since,
/// and another one in its place.
class HadoopSink : public records::ByteSink {
 public:
  HadoopSink(std::string name, std::unique_ptr<hadoop::WritableFile> file)
      : name_(std::move(name)), file_(std::move(file)) {}
  ~HadoopSink() override { file_->Discard(); }
  HadoopSink(const HadoopSink&) = delete;
  HadoopSink& operator=(const HadoopSink&) = delete;

  Status Write(std::span<const std::byte> bytes) override { return file_->Append(bytes); }
  Status Close() override { return file_->Close(); }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const std::unique_ptr<hadoop::WritableFile> file_;
};

}  // namespace tfos::files

#endif  // TFOS_FILES_HADOOP_STREAMS_H_
