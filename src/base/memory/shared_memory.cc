#include "base/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Linux 5.1 brought it; older C libraries do not name it.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

Result<std::span<std::byte>> MapShared(int fd, std::uint64_t bytes, int protection) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return Status::FromErrno(errno, fmt::format("map {} bytes of shared memory", bytes));
  }
  return std::span(static_cast<std::byte*>(address), bytes);
}

}  // namespace

Result<SharedMemory> SharedMemory::Create(const char* name, std::uint64_t bytes, Writers writers) {
  SharedMemory memory;
  memory.fd_.Reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd_.valid()) return Status::FromErrno(errno, "create shared memory");
  if (::ftruncate(memory.fd(), static_cast<off_t>(bytes)) != 0) {
    return Status::FromErrno(errno, fmt::format("size shared memory to {} bytes", bytes));
  }
  // Its size before it is mapped, and writing after that: the mapping stays writable.
  if (::fcntl(memory.fd(), F_ADD_SEALS, kSeals) != 0) {
    return Status::FromErrno(errno, "seal the size of shared memory");
  }
  TFOS_ASSIGN_OR_RETURN(memory.bytes_, MapShared(memory.fd(), bytes, PROT_READ | PROT_WRITE));
  const int last = writers == Writers::kCreator ? F_SEAL_FUTURE_WRITE | F_SEAL_SEAL : F_SEAL_SEAL;
  if (::fcntl(memory.fd(), F_ADD_SEALS, last) != 0) {
    return Status::FromErrno(errno, "seal shared memory");
  }
  return memory;
}

Result<SharedMemory> SharedMemory::Map(UniqueFd fd, std::uint64_t bytes, bool writable) {
  struct stat about {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (::fstat(fd.get(), &about) != 0) return Status::FromErrno(errno, "look at shared memory");
  if (about.st_size < 0 || static_cast<std::uint64_t>(about.st_size) != bytes || seals < 0 ||
      (seals & kSeals) != kSeals) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("what was passed is not {} bytes of sealed memory", bytes));
  }
  SharedMemory memory;
  memory.fd_ = std::move(fd);
  TFOS_ASSIGN_OR_RETURN(
      memory.bytes_, MapShared(memory.fd(), bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ));
  return memory;
}

Status SharedMemory::Allocate(std::uint64_t begin, std::uint64_t bytes) {
  int failed = 0;
  do {
    failed = ::fallocate(fd(), 0, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed == 0) return {};
  return Status::FromErrno(errno, fmt::format("get {} bytes of shared memory; the host or the "
                                              "container has too little memory, or does not "
                                              "overcommit it",
                                              bytes));
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<UniqueFd> SharedMemory::OpenForReading() const {
  UniqueFd reading(::open(fmt::format("/proc/self/fd/{}", fd()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!reading.valid()) return Status::FromErrno(errno, "open shared memory for reading");
  return reading;
}

}  // namespace tfos
