#include "base/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/format.h"

namespace tfos {

namespace {

/// Of a path that people gave, as the part beside it is nothing they know of.
std::string CanNotWrite(const std::string& path) { return fmt::format("can't write {}", path); }

}  // namespace

Result<OutputFile> OutputFile::Open(const std::string& path) {
  OutputFile file(path);
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
    return Status(ErrorKind::kBadInput, CanNotWrite(path) + ": it is a folder");
  }
  // A new file under a name that nobody can know before: no link of another user's lies there.
  file.fd_.Reset(::mkostemp(file.part_.data(), O_CLOEXEC));
  if (file.fd_.valid()) return file;
  return Status(ErrorKind::kBadInput, Status::FromErrno(errno, CanNotWrite(path)).ToString());
}

OutputFile::~OutputFile() {
  if (fd_.valid()) ::unlink(part_.c_str());
}

Status OutputFile::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::FromErrno(errno, CanNotWrite(path_));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::rename(part_.c_str(), path_.c_str()) != 0) {
    return Status::FromErrno(errno, CanNotWrite(path_));
  }
  fd_.Reset();
  return Status::Ok();
}

}  // namespace tfos
