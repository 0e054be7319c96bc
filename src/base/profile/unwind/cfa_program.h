#ifndef TFOS_BASE_PROFILE_UNWIND_CFA_PROGRAM_H_
#define TFOS_BASE_PROFILE_UNWIND_CFA_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/profile/unwind/eh_frame.h"
#include "base/profile/unwind/registers.h"

namespace tfos {

/// Where the caller's value of a register is.
struct RegisterRule {
  enum class Kind : std::uint8_t {
    kSame,        ///< In the register itself.
    kUndefined,   ///< Lost. A frame whose return address is lost has no caller.
    kAt,          ///< In memory, `number` bytes from the frame's address.
    kIs,          ///< That address plus `number` itself.
    kRegister,    ///< In the register `number`.
    kAtComputed,  ///< In memory where `expression` says.
    kComputed,    ///< What `expression` says.
  };
  Kind kind = Kind::kSame;
  std::int64_t number = 0;
  std::span<const std::byte> expression = {};
};

/// How to get from a frame to its caller's while one instruction is at work (DWARF 5, 6.4.1).
///
/// Owner and lifetime: borrows expressions from the FrameDescription. Threads: plain data.
struct FrameRow {
  /// The frame's address (CFA): a register plus an offset, or an expression, which is never empty.
  std::uint64_t base_register = 0;
  std::int64_t base_offset = 0;
  std::span<const std::byte> base_expression = {};
  std::array<RegisterRule, Registers::kCount> registers = {};
  bool return_is_signed = false;  ///< The return address has bits that are not of the address.
};

/// Runs the programs of `frame` up to `pc`.
///
/// Threads: a pure function. Errors: nullopt where a program makes no sense.
std::optional<FrameRow> RowAt(const FrameDescription& frame, std::uint64_t pc);

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_CFA_PROGRAM_H_
