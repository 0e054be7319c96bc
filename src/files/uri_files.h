#ifndef TFOS_FILES_URI_FILES_H_
#define TFOS_FILES_URI_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hadoop/files/file_system.h"
#include "records/files/file_store.h"
#include "tfos/status.h"

namespace tfos::files {

/// Whether a path begins with a scheme, as hdfs://namenode/a does.
bool IsUri(std::string_view path);

/// Files of records wherever they are: a path that is a URI is Hadoop's, any other this host's.
///
/// Owner and lifetime: its maker's; borrows `hadoop`. Threads and errors: as FileStore has
/// them.
class UriFiles : public records::FileStore {
 public:
  explicit UriFiles(hadoop::FileSystem& hadoop) : hadoop_(hadoop) {}

  Result<std::unique_ptr<records::ByteSource>> Open(const std::string& path,
                                                    std::uint64_t offset) const override;
  Result<std::unique_ptr<records::ByteSink>> Create(
      const std::string& path, records::Directories directories) const override;
  Result<std::uint64_t> SizeOf(const std::string& path) const override;
  /// Both paths are of one file system.
  Status Rename(const std::string& from, const std::string& to) const override;
  Status Delete(const std::string& path) const override;

 private:
  hadoop::FileSystem& hadoop_;
  const records::LocalFileStore local_;
};

}  // namespace tfos::files

#endif  // TFOS_FILES_URI_FILES_H_
