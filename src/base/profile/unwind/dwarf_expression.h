#ifndef TFOS_BASE_PROFILE_UNWIND_DWARF_EXPRESSION_H_
#define TFOS_BASE_PROFILE_UNWIND_DWARF_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/profile/unwind/dwarf_reader.h"
#include "base/profile/unwind/registers.h"

namespace tfos {

/// What a DWARF expression comes to that says where a frame keeps something (DWARF 5, 2.5): that is
/// arithmetic, registers and memory, and no types, objects or calls.
///
/// `first`: on the stack when it begins. Threads: a pure function.
/// Errors: nullopt where it makes no sense, needs too much, or reads what is not there.
std::optional<std::uint64_t> EvaluateExpression(std::span<const std::byte> expression,
                                                const Registers& registers,
                                                const ProcessMemory& memory,
                                                std::optional<std::uint64_t> first);

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_DWARF_EXPRESSION_H_
