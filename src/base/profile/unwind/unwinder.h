#ifndef TFOS_BASE_PROFILE_UNWIND_UNWINDER_H_
#define TFOS_BASE_PROFILE_UNWIND_UNWINDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/profile/unwind/cfa_program.h"
#include "base/profile/unwind/dwarf_reader.h"
#include "base/profile/unwind/eh_frame.h"
#include "base/profile/unwind/memory_map.h"
#include "base/profile/unwind/registers.h"

namespace tfos {

/// What a thread had in its registers and on its stack at one moment.
///
/// Owner and lifetime: a value. Threads: any that only read.
struct ThreadCopy final : ProcessMemory {
  Registers registers = {};
  std::uint64_t stack_address = 0;
  std::vector<std::byte> stack = {};

  bool Read(std::uint64_t address, std::span<std::byte> into) const override;
};

/// The calls that a thread was in.
struct Calls {
  enum class End : std::uint8_t {
    kFirst,  ///< With the first call of the thread.
    kMore,   ///< There are more than kMostCalls.
    kLost,   ///< What called the earliest of them is not known.
  };
  /// Addresses in the code, the latest call first. Of all but the latest, within the call
  /// instruction and not after it.
  std::vector<std::uintptr_t> addresses = {};
  End end = End::kLost;
};

/// Finds the calls that threads of one process are in, from copies of their stacks, by what the
/// compiler has left in .eh_frame (as C++'s exceptions do). Code that was made at run time has no
/// such description: a stack can't be followed beyond it.
///
/// Trusts neither the process's memory nor its files: wrong ones give wrong or fewer calls.
/// Owner and lifetime: borrows both arguments. Threads: one at a time.
class Unwinder {
 public:
  static constexpr std::size_t kMostCalls = 128;

  /// `memory`: where the process's files are mapped; it may go on meanwhile. `sorted`: its map.
  Unwinder(const ProcessMemory& memory, std::span<const Mapping> sorted)
      : memory_(memory), mappings_(sorted) {}

  Calls Follow(const ThreadCopy& thread);

 private:
  struct Frame {
    FrameDescription description;
    FrameRow row;  ///< Borrows from it.
  };
  /// nullptr if nothing describes the code.
  const Frame* FrameAt(std::uint64_t pc);
  std::unique_ptr<Frame> FindFrameAt(std::uint64_t pc) const;
  std::optional<FrameTable> TableOf(const Mapping& code, std::uint64_t pc) const;

  const ProcessMemory& memory_;
  const std::span<const Mapping> mappings_;
  /// Threads of a pool have the same calls.
  std::map<std::uint64_t, std::unique_ptr<Frame>> frames_;
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_UNWINDER_H_
