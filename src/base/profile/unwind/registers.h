#ifndef TFOS_BASE_PROFILE_UNWIND_REGISTERS_H_
#define TFOS_BASE_PROFILE_UNWIND_REGISTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tfos {

/// As DWARF numbers them on this processor; those that hold no addresses are left out.
///
/// Owner and lifetime: a value.
struct Registers {
#if defined(__aarch64__)
  static constexpr std::size_t kStackPointer = 31;
  static constexpr std::size_t kProgramCounter = 32;  ///< DWARF gives it none for old frames.
  static constexpr std::size_t kCount = 33;
  /// Of code. The bits above may sign a return address.
  static constexpr std::uint64_t kAddressBits = (std::uint64_t{1} << 48) - 1;
#else
  static constexpr std::size_t kStackPointer = 7;
  static constexpr std::size_t kProgramCounter = 16;
  static constexpr std::size_t kCount = 17;
  static constexpr std::uint64_t kAddressBits = ~std::uint64_t{0};
#endif

  std::array<std::uint64_t, kCount> values = {};

  std::uint64_t stack_pointer() const { return values[kStackPointer]; }
  std::uint64_t program_counter() const { return values[kProgramCounter]; }
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_REGISTERS_H_
