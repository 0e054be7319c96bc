#ifndef TFOS_BASE_MEMORY_SHARED_MEMORY_H_
#define TFOS_BASE_MEMORY_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos {

/// Memory that processes of a host share: an anonymous file, mapped. It leaves nothing behind.
///
/// Owner and lifetime: move-only; unmaps on destruction. Threads: as plain memory. Units: bytes.
class SharedMemory {
 public:
  enum class Writers {
    kAll,  ///< All that map it for writing.
    /// This object's mapping alone: nobody makes another one that can be written to, nor writes
    /// by a descriptor, also by opening the descriptor again.
    kCreator,
  };
  /// New memory of zeros; the system's tools show `name`. Nobody can change its size afterwards:
  /// shrinking it would kill the others with SIGBUS.
  static Result<SharedMemory> Create(const char* name, std::uint64_t bytes, Writers writers);
  /// Maps what another process created, for reading only unless `writable`. Bad input unless it is
  /// `bytes` large and sealed.
  static Result<SharedMemory> Map(UniqueFd fd, std::uint64_t bytes, bool writable);

  /// Has the system give pages to these bytes now. Without, it looks for one when a byte is first
  /// touched, and where it finds none it ends the process by SIGBUS. No resources: there are none.
  Status Allocate(std::uint64_t begin, std::uint64_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  /// For other processes, until `CloseFd`.
  int fd() const { return fd_.get(); }
  /// Nobody else is to get it. The mapping stays.
  void CloseFd() { fd_.Reset(); }
  /// Another descriptor of it, for others that are to read it. It alone does not keep them from
  /// writing, as it can be opened again; Writers::kCreator does.
  Result<UniqueFd> OpenForReading() const;

 private:
  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_SHARED_MEMORY_H_
