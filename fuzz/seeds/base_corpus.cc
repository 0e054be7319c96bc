#include "seeds/base_corpus.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/profile/unwind/test_image.h"

namespace tfos {
namespace {

Seed Unwind(std::string name, const TestImage& image) {
  constexpr std::uint64_t kCode = kImageAddress + kCodeAt;
  std::string stack;
  for (const std::uint64_t address : {kCode + 16, kCode + 24, kCode + 32, std::uint64_t{1}}) {
    stack += Little(0, 8) + Little(address, 8);
  }
  return {.target = "unwind",
          .name = std::move(name),
          .bytes = OneByte(stack.size() / 8) + stack + image.Bytes()};
}

}  // namespace

std::vector<Seed> BaseSeeds() {
  const std::string pc = OneByte(Registers::kProgramCounter);
  const std::string computed =
      OneByte(0x0f) + OneByte(4) + OneByte(0x70 + Registers::kStackPointer) + OneByte(0) +
      OneByte(0x23) + OneByte(16) + OneByte(0x10) + pc + OneByte(2) + OneByte(0x38) + OneByte(0x1c);
  const std::string kept = PlainProgram() + OneByte(0x0a) + OneByte(0x07) + pc + OneByte(0x0b) +
                           OneByte(0x44) + OneByte(0x06) + pc;
  return {
      Unwind("plain", {.own_program = PlainProgram()}),
      Unwind("common", {.common_program = PlainProgram(), .own_program = OneByte(0x60)}),
      Unwind("computed", {.own_program = computed}),
      Unwind("kept", {.common_program = PlainProgram(), .own_program = kept}),
      Unwind("signal", {.augmentation = "zRS", .own_program = PlainProgram()}),
      Unwind("personality", {.augmentation = "zPLR",
                             .augmentation_data = std::string("\x9b\0\0\0\0\x1b\x1b", 7),
                             .own_program = PlainProgram()}),
      Unwind("end", {.own_program = PlainProgram() + OneByte(0x07) + pc}),
  };
}

}  // namespace tfos
