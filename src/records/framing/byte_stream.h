#ifndef TFOS_RECORDS_FRAMING_BYTE_STREAM_H_
#define TFOS_RECORDS_FRAMING_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos::records {

/// Where the bytes of a file come from, one behind the other.
///
/// Owner and lifetime: one reader. Threads: one at a time. Errors: what the place says, with the
/// name; nothing can be read any more then.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads into the front of `room`, which is not empty: the number of bytes, which may be fewer
  /// than fit; 0 at the end, and only there.
  virtual Result<std::size_t> Read(std::span<std::byte> room) = 0;

  /// Takes all that is left, where that lies in memory which stays as long as the source: then
  /// there is nothing to read any more. Empty for other sources.
  virtual std::span<const std::byte> TakeRest() { return {}; }

  /// What messages call it, such as its path.
  virtual const std::string& name() const = 0;
};

/// Where the bytes of a file go to.
///
/// Owner and lifetime: one writer. Threads: one at a time. Errors: what the place says, with the
/// name; what was written is of no use then. Only `Close` says that all of it has arrived; the
/// destructor just lets go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  virtual Status Write(std::span<const std::byte> bytes) = 0;
  virtual Status Close() = 0;

  /// What messages call it, such as its path.
  virtual const std::string& name() const = 0;
};

/// A file of this host, read from `offset` (bytes).
class FileSource : public ByteSource {
 public:
  static Result<std::unique_ptr<FileSource>> Open(std::string path, std::uint64_t offset = 0);

  Result<std::size_t> Read(std::span<std::byte> room) override;
  const std::string& name() const override { return path_; }

 private:
  FileSource(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
};

/// A file of this host; one that is there already is emptied.
class FileSink : public ByteSink {
 public:
  static Result<std::unique_ptr<FileSink>> Open(std::string path);

  Status Write(std::span<const std::byte> bytes) override;
  Status Close() override;
  const std::string& name() const override { return path_; }

 private:
  FileSink(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
};

/// Memory of somebody else, who keeps it.
class MemorySource : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  Result<std::size_t> Read(std::span<std::byte> room) override;
  std::span<const std::byte> TakeRest() override { return std::exchange(bytes_, {}); }
  const std::string& name() const override { return name_; }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;  ///< What was not read yet.
};

/// A string of somebody else, to whose end everything goes.
class MemorySink : public ByteSink {
 public:
  MemorySink(std::string name, std::string& to) : name_(std::move(name)), to_(to) {}

  Status Write(std::span<const std::byte> bytes) override;
  Status Close() override { return Status::Ok(); }
  const std::string& name() const override { return name_; }

 private:
  std::string name_;
  std::string& to_;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_BYTE_STREAM_H_
