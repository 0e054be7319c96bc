#ifndef TFOS_PARAMETER_SERVER_SHARED_MEMORY_H_
#define TFOS_PARAMETER_SERVER_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// Memory that two processes of a host see: an anonymous file, mapped. It leaves nothing behind.
///
/// Owner and lifetime: move-only; unmaps on destruction. Threads: as plain memory. Units: bytes.
class SharedMemory {
 public:
  /// New memory of zeros. Nobody can change its size afterwards: who shrank it would kill the
  /// others with SIGBUS.
  static Result<SharedMemory> Create(std::uint64_t bytes);
  /// Maps what another process created, for reading only unless `writable`. Bad input unless it is
  /// `bytes` large and sealed.
  static Result<SharedMemory> Map(UniqueFd fd, std::uint64_t bytes, bool writable);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  /// Another descriptor of it, through which nobody can write.
  Result<UniqueFd> OpenForReading() const;

 private:
  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_SHARED_MEMORY_H_
