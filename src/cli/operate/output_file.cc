#include "cli/operate/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "base/format.h"

namespace tfos::cli {

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
  file.fd_.Reset(::open(file.part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
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

}  // namespace tfos::cli
