#ifndef TFOS_RECORDS_FILES_FILE_STORE_H_
#define TFOS_RECORDS_FILES_FILE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::records {

/// What becomes of directories above a new file that are not there.
enum class Directories {
  kAsUsual,      ///< File systems of Hadoop make them; this host's says ENOENT.
  kMustBeThere,  ///< ENOENT everywhere.
};

/// Where files of records are, by their path.
///
/// Owner and lifetime: its maker's; what it opens may outlive it. Threads: any number at a
/// time. Errors: `Status::code()` is the errno, the message names the path.
class FileStore {
 public:
  virtual ~FileStore() = default;

  /// Reads from `offset` (bytes).
  virtual Result<std::unique_ptr<ByteSource>> Open(const std::string& path,
                                                   std::uint64_t offset) const = 0;
  /// A new file; one that is there already is replaced.
  virtual Result<std::unique_ptr<ByteSink>> Create(const std::string& path,
                                                   Directories directories) const = 0;
  /// Bytes.
  virtual Result<std::uint64_t> SizeOf(const std::string& path) const = 0;
  /// In one step; replaces a file that is at `to`.
  virtual Status Rename(const std::string& from, const std::string& to) const = 0;
  /// A file.
  virtual Status Delete(const std::string& path) const = 0;
};

/// The files of this host.
class LocalFileStore : public FileStore {
 public:
  Result<std::unique_ptr<ByteSource>> Open(const std::string& path,
                                           std::uint64_t offset) const override;
  Result<std::unique_ptr<ByteSink>> Create(const std::string& path,
                                           Directories directories) const override;
  Result<std::uint64_t> SizeOf(const std::string& path) const override;
  Status Rename(const std::string& from, const std::string& to) const override;
  Status Delete(const std::string& path) const override;
};

/// For callers that are told of no other.
const FileStore& LocalFiles();

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_FILE_STORE_H_
