#include "records/files/file_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/format.h"

namespace tfos::records {

Result<std::unique_ptr<ByteSource>> LocalFileStore::Open(const std::string& path,
                                                         std::uint64_t offset) const {
  TFOS_ASSIGN_OR_RETURN(auto source, FileSource::Open(path, offset));
  return std::unique_ptr<ByteSource>(std::move(source));
}

Result<std::unique_ptr<ByteSink>> LocalFileStore::Create(const std::string& path,
                                                         Directories /*directories*/) const {
  TFOS_ASSIGN_OR_RETURN(auto sink, FileSink::Open(path));
  return std::unique_ptr<ByteSink>(std::move(sink));
}

Result<std::uint64_t> LocalFileStore::SizeOf(const std::string& path) const {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return Status::FromErrno(errno, fmt::format("look at {}", path));
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

Status LocalFileStore::Rename(const std::string& from, const std::string& to) const {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return Status::FromErrno(errno, fmt::format("rename {} to {}", from, to));
  }
  return Status::Ok();
}

Status LocalFileStore::Delete(const std::string& path) const {
  if (::unlink(path.c_str()) != 0) return Status::FromErrno(errno, fmt::format("delete {}", path));
  return Status::Ok();
}

const FileStore& LocalFiles() {
  static const LocalFileStore files;
  return files;
}

}  // namespace tfos::records
