#include "cli/operate/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "base/format.h"

namespace tfos::cli {

Result<OutputFile> OutputFile::Open(const std::string& path) {
  OutputFile file(path);
  file.fd_.Reset(::open(file.part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.fd_.valid()) return file;
  return Status(ErrorKind::kBadInput,
                Status::FromErrno(errno, fmt::format("write {}", file.part_)).ToString());
}

OutputFile::~OutputFile() {
  if (fd_.valid()) ::unlink(part_.c_str());
}

Status OutputFile::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::FromErrno(errno, fmt::format("write {}", part_));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::rename(part_.c_str(), path_.c_str()) != 0) {
    return Status::FromErrno(errno, fmt::format("write {}", path_));
  }
  fd_.Reset();
  return Status::Ok();
}

}  // namespace tfos::cli
