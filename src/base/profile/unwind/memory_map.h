#ifndef TFOS_BASE_PROFILE_UNWIND_MEMORY_MAP_H_
#define TFOS_BASE_PROFILE_UNWIND_MEMORY_MAP_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/profile/unwind/dwarf_reader.h"

namespace tfos {

/// One piece of a process's memory, as /proc/PID/maps has it.
///
/// Owner and lifetime: a value. Threads: plain data.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_code = false;
  std::uint64_t offset = 0;  ///< In the file.
  std::string path = {};     ///< Or "[stack]", "[vdso]"; empty: of no file.
};

/// Sorted. Empty: the process has ended, or may not be looked at.
std::vector<Mapping> ReadMemoryMap(pid_t pid);

/// From the text of /proc/PID/maps. Lines that make no sense are left out.
std::vector<Mapping> ParseMemoryMap(std::string_view text);

/// nullptr: nothing is there.
const Mapping* FindMapping(std::span<const Mapping> sorted, std::uint64_t address);

/// The memory of a process that goes on meanwhile. It needs the right to trace it.
///
/// Owner and lifetime: a value; the number may come to mean another process.
/// Threads: any.
class MemoryOfProcess final : public ProcessMemory {
 public:
  explicit MemoryOfProcess(pid_t pid) : pid_(pid) {}
  bool Read(std::uint64_t address, std::span<std::byte> into) const override;
  /// How many bytes could be read, from the first on.
  std::size_t ReadSome(std::uint64_t address, std::span<std::byte> into) const;

 private:
  const pid_t pid_;
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_MEMORY_MAP_H_
