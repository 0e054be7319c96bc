#ifndef TFOS_BASE_PROFILE_UNWIND_EH_FRAME_H_
#define TFOS_BASE_PROFILE_UNWIND_EH_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/profile/unwind/dwarf_reader.h"

namespace tfos {

/// What compilers say of the frames of one function: how to get from one to its caller's. That is
/// an FDE of the section .eh_frame with its CIE (Linux Standard Base, "Exception Frames"; DWARF 5,
/// 6.4).
///
/// Owner and lifetime: a value; the parts are in `common` and `own`. Threads: plain data.
struct FrameDescription {
  std::vector<std::byte> common = {};  ///< The CIE.
  std::vector<std::byte> own = {};     ///< The FDE.
  std::uint64_t begin = 0;             ///< Of the function's code.
  std::uint64_t end = 0;
  std::uint64_t code_step = 1;  ///< What addresses and offsets in the programs are multiples of.
  std::int64_t data_step = 1;
  std::uint64_t return_register = 0;
  bool of_signal = false;     ///< The caller was interrupted, and did not call.
  std::size_t common_at = 0;  ///< Where the programs begin.
  std::size_t own_at = 0;
  std::uint8_t encoding = 0;      ///< Of addresses in them.
  std::uint64_t own_address = 0;  ///< Of the first byte of `own` in the process.

  std::span<const std::byte> common_program() const { return std::span(common).subspan(common_at); }
  std::span<const std::byte> own_program() const { return std::span(own).subspan(own_at); }
};

/// The table of frames in a file's segment PT_GNU_EH_FRAME, as `memory` has it.
struct FrameTable {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  ///< In bytes.
};

/// The description of the code at `pc`. It looks into a few dozen places, however large the table.
///
/// Threads: a pure function. Errors: nullopt where there is none, or none that makes sense.
std::optional<FrameDescription> FindFrame(const ProcessMemory& memory, const FrameTable& table,
                                          std::uint64_t pc);

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_EH_FRAME_H_
