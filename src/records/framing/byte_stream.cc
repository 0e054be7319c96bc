#include "records/framing/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace tfos::records {

Result<std::unique_ptr<FileSource>> FileSource::Open(std::string path, std::uint64_t offset) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Status::FromErrno(errno, fmt::format("open {}", path));
  if (offset != 0 && ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    return Status::FromErrno(errno, fmt::format("go to offset {} of {}", offset, path));
  }
  // Only advice: reading works without it.
  static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return std::unique_ptr<FileSource>(new FileSource(std::move(path), std::move(file)));
}

Result<std::size_t> FileSource::Read(std::span<std::byte> room) {
  while (true) {
    const ssize_t read = ::read(file_.get(), room.data(), room.size());
    if (read >= 0) return static_cast<std::size_t>(read);
    if (errno != EINTR) return Status::FromErrno(errno, fmt::format("read {}", path_));
  }
}

Result<std::unique_ptr<FileSink>> FileSink::Open(std::string path) {
  constexpr mode_t kMode = 0666;  // As far as the umask allows.
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file.valid()) return Status::FromErrno(errno, fmt::format("create {}", path));
  return std::unique_ptr<FileSink>(new FileSink(std::move(path), std::move(file)));
}

Status FileSink::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return Status::FromErrno(errno, fmt::format("write {}", path_));
    }
  }
  return Status::Ok();
}

Status FileSink::Close() {
  if (!file_.valid()) return Status::Ok();
  // Some file systems report only here that there was no room.
  if (::close(file_.Release()) != 0 && errno != EINTR) {
    return Status::FromErrno(errno, fmt::format("close {}", path_));
  }
  return Status::Ok();
}

Result<std::size_t> MemorySource::Read(std::span<std::byte> room) {
  const std::size_t bytes = std::min(room.size(), bytes_.size());
  if (bytes != 0) std::memcpy(room.data(), bytes_.data(), bytes);
  bytes_ = bytes_.subspan(bytes);
  return bytes;
}

Status MemorySink::Write(std::span<const std::byte> bytes) {
  to_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return Status::Ok();
}

}  // namespace tfos::records
