#ifndef TFOS_BASE_PROFILE_UNWIND_DWARF_READER_H_
#define TFOS_BASE_PROFILE_UNWIND_DWARF_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tfos {

/// Memory of a process, or a copy of some of it.
///
/// Threads: as the implementation says.
class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  /// False: not all of it could be read.
  virtual bool Read(std::uint64_t address, std::span<std::byte> into) const = 0;
};

/// Reads numbers as DWARF writes them, from bytes that nobody vouches for.
///
/// Beyond the end, and from what makes no sense, it reads zeros and is not `ok` ever after. So one
/// look at `ok` after several numbers is enough.
///
/// Owner and lifetime: borrows the bytes. Threads: one at a time.
class DwarfReader {
 public:
  /// `address`: that of the first byte in its process, for numbers relative to their own place.
  explicit DwarfReader(std::span<const std::byte> bytes, std::uint64_t address = 0)
      : bytes_(bytes), address_(address) {}

  bool ok() const { return ok_; }
  bool at_end() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  std::span<const std::byte> rest() const { return bytes_.subspan(at_); }

  /// Of 1, 2, 4 or 8 bytes.
  std::uint64_t Unsigned(std::size_t size);
  std::int64_t Signed(std::size_t size);
  std::uint64_t Uleb();
  std::int64_t Sleb();
  std::span<const std::byte> Block(std::uint64_t size);
  /// Up to its zero.
  std::string_view Text();
  /// A pointer of .eh_frame with this encoding (DW_EH_PE_...). `data`: what it may be relative to.
  std::uint64_t Pointer(std::uint8_t encoding, std::uint64_t data = 0);
  /// To a place before or after this one, for expressions.
  void Skip(std::int64_t bytes);

 private:
  void Fail();

  std::span<const std::byte> bytes_;
  std::uint64_t address_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_DWARF_READER_H_
