#ifndef TFOS_BASE_PROFILE_UNWIND_TEST_IMAGE_H_
#define TFOS_BASE_PROFILE_UNWIND_TEST_IMAGE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/profile/unwind/dwarf_reader.h"
#include "base/profile/unwind/memory_map.h"
#include "base/profile/unwind/registers.h"
#include "base/profile/unwind/unwinder.h"

// A tiny file with one function, as it would be in memory, for tests and fuzzing.
namespace tfos {

inline constexpr std::uint64_t kImageAddress = 0x400000;
inline constexpr std::uint64_t kTableAt = 176;
inline constexpr std::uint64_t kEntriesAt = 200;
inline constexpr std::uint64_t kCodeAt = 512;
inline constexpr std::uint64_t kImageBytes = 1024;
inline constexpr std::uint64_t kTestStackAddress = 0x7f0000000000;

/// What the parts say; the programs are DW_CFA_... instructions.
struct TestImage {
  std::string augmentation = "zR";
  std::string augmentation_data = "\x1b";  ///< Relative to its place, 4 bytes with a sign.
  std::string common_program = {};
  std::string own_program = {};

  std::string Bytes() const;
};

inline std::string Little(std::uint64_t value, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
inline std::string OneByte(std::uint64_t value) { return Little(value, 1); }

/// The frame's address is the stack pointer plus 16, and the return address is 8 below it.
inline std::string PlainProgram() {
  return OneByte(0x0c) + OneByte(Registers::kStackPointer) + OneByte(16) +
         OneByte(0x80 + Registers::kProgramCounter % 64) + OneByte(1);
}

inline std::string TestImage::Bytes() const {
  const auto entry = [](std::string body) {
    body.resize((body.size() + 3) / 4 * 4, '\0');  // DW_CFA_nop
    return Little(body.size(), 4) + body;
  };
  const std::string common =
      entry(Little(0, 4) + OneByte(1) + augmentation + OneByte(0) + OneByte(1) + OneByte(0x78) +
            OneByte(Registers::kProgramCounter) +
            (augmentation.empty() ? "" : OneByte(augmentation_data.size()) + augmentation_data) +
            common_program);
  const std::uint64_t own_at = kEntriesAt + common.size();
  const std::string own =
      entry(Little(own_at + 4 - kEntriesAt, 4) + Little(kCodeAt - (own_at + 8), 4) +
            Little(256, 4) + (augmentation.empty() ? "" : OneByte(0)) + own_program);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_phoff = sizeof(header);
  header.e_phnum = 2;
  header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Phdr segments[2]{};
  segments[0] = {.p_type = PT_LOAD,
                 .p_flags = PF_X,
                 .p_offset = 0,
                 .p_vaddr = 0,
                 .p_paddr = 0,
                 .p_filesz = kImageBytes,
                 .p_memsz = kImageBytes,
                 .p_align = 1};
  segments[1] = {.p_type = PT_GNU_EH_FRAME,
                 .p_flags = 0,
                 .p_offset = kTableAt,
                 .p_vaddr = kTableAt,
                 .p_paddr = 0,
                 .p_filesz = 20,
                 .p_memsz = 20,
                 .p_align = 1};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(reinterpret_cast<const char*>(segments), sizeof(segments));
  bytes += Little(0x3b031b01, 4) + Little(kEntriesAt - kTableAt - 4, 4) + Little(1, 4) +
           Little(kCodeAt - kTableAt, 4) + Little(own_at - kTableAt, 4);
  bytes.resize(kEntriesAt, '\0');
  bytes += common + own;
  bytes.resize(kImageBytes, '\0');
  return bytes;
}

/// Bytes at one address, and nothing anywhere else.
class TestMemory final : public ProcessMemory {
 public:
  TestMemory(std::string bytes, std::uint64_t address)
      : bytes_(std::move(bytes)), address_(address) {}
  bool Read(std::uint64_t address, std::span<std::byte> into) const override {
    const std::uint64_t from = address - address_;
    if (from > bytes_.size() || into.size() > bytes_.size() - from) return false;
    // Neither has an address if there are none.
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + from, into.size());
    return true;
  }

 private:
  const std::string bytes_;
  const std::uint64_t address_;
};

/// The calls of a thread that is in the image's function, with these bytes on its stack.
inline Calls FollowInImage(const std::string& image, std::string_view stack) {
  const std::vector<Mapping> map = {{.begin = kImageAddress,
                                     .end = kImageAddress + kImageBytes,
                                     .is_code = true,
                                     .path = "/image"}};
  ThreadCopy thread;
  thread.registers.values.fill(kTestStackAddress + 64);
  thread.registers.values[Registers::kStackPointer] = kTestStackAddress;
  thread.registers.values[Registers::kProgramCounter] = kImageAddress + kCodeAt + 8;
  thread.stack_address = kTestStackAddress;
  const auto bytes = std::as_bytes(std::span(stack));
  thread.stack.assign(bytes.begin(), bytes.end());
  const TestMemory memory(image, kImageAddress);
  return Unwinder(memory, map).Follow(thread);
}

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_TEST_IMAGE_H_
