#include "base/profile/unwind/dwarf_expression.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "base/profile/unwind/test_image.h"

namespace tfos {
namespace {

std::optional<std::uint64_t> Evaluate(const std::string& expression,
                                      std::optional<std::uint64_t> first = {}) {
  Registers registers;
  registers.values[7] = 100;
  const TestMemory memory(Little(0x1122334455667788, 8), 1000);
  return EvaluateExpression(std::as_bytes(std::span(expression)), registers, memory, first);
}

/// Of small numbers.
std::optional<std::uint64_t> OfTwo(std::uint64_t left, std::uint64_t operation,
                                   std::uint64_t right) {
  return Evaluate(OneByte(0x30 + left) + OneByte(0x30 + right) + OneByte(operation));
}

TEST(DwarfExpressionTest, Constants) {
  EXPECT_EQ(Evaluate("\x30"), 0u);
  EXPECT_EQ(Evaluate("\x4f"), 31u);
  EXPECT_EQ(Evaluate("\x08\xff"), 255u);
  EXPECT_EQ(Evaluate("\x09\xff"), ~std::uint64_t{0});
  EXPECT_EQ(Evaluate("\x0a" + Little(0x8000, 2)), 0x8000u);
  EXPECT_EQ(Evaluate("\x0b" + Little(0x8000, 2)), 0xffffffffffff8000u);
  EXPECT_EQ(Evaluate("\x0c" + Little(0x80000000, 4)), 0x80000000u);
  EXPECT_EQ(Evaluate("\x0d" + Little(0x80000000, 4)), 0xffffffff80000000u);
  EXPECT_EQ(Evaluate("\x0e" + Little(1ULL << 63, 8)), 1ULL << 63);
  EXPECT_EQ(Evaluate("\x10\xe5\x8e\x26"), 624485u);
  EXPECT_EQ(Evaluate("\x11\x7f"), ~std::uint64_t{0});
  EXPECT_EQ(Evaluate("\x03" + Little(5, 8)), 5u);
}

TEST(DwarfExpressionTest, RegistersAndMemory) {
  EXPECT_EQ(Evaluate("\x77\x08"), 108u);
  EXPECT_EQ(Evaluate(std::string("\x92\x07\x7f")), 99u);
  EXPECT_EQ(Evaluate("\x0a" + Little(1000, 2) + "\x06"), 0x1122334455667788u);
  EXPECT_EQ(Evaluate("\x0a" + Little(1000, 2) + "\x94\x02"), 0x7788u);
  EXPECT_EQ(Evaluate("\x0a" + Little(1001, 2) + "\x06"), std::nullopt) << "beyond the end";
  EXPECT_EQ(Evaluate("\x0a" + Little(1000, 2) + "\x94\x09"), std::nullopt);
  EXPECT_EQ(Evaluate("\x92\x7f" + OneByte(0)), std::nullopt) << "no such register";
}

TEST(DwarfExpressionTest, Arithmetic) {
  EXPECT_EQ(OfTwo(6, 0x1a, 3), 2u);
  EXPECT_EQ(OfTwo(7, 0x1b, 2), 3u);
  EXPECT_EQ(OfTwo(2, 0x1c, 3), ~std::uint64_t{0});
  EXPECT_EQ(OfTwo(7, 0x1d, 4), 3u);
  EXPECT_EQ(OfTwo(7, 0x1e, 4), 28u);
  EXPECT_EQ(OfTwo(6, 0x21, 3), 7u);
  EXPECT_EQ(OfTwo(6, 0x22, 3), 9u);
  EXPECT_EQ(OfTwo(6, 0x24, 3), 48u);
  EXPECT_EQ(OfTwo(12, 0x25, 2), 3u);
  EXPECT_EQ(OfTwo(12, 0x26, 2), 3u);
  EXPECT_EQ(OfTwo(6, 0x27, 3), 5u);
  EXPECT_EQ(OfTwo(6, 0x1b, 0), std::nullopt);
  EXPECT_EQ(OfTwo(6, 0x1d, 0), std::nullopt);
  const std::string smallest = "\x0e" + Little(1ULL << 63, 8);
  EXPECT_EQ(Evaluate(smallest + "\x09\xff\x1b"), 1ULL << 63) << "it has no opposite";
  EXPECT_EQ(Evaluate(smallest + "\x19"), 1ULL << 63);
  EXPECT_EQ(Evaluate(smallest + "\x08\x40\x24"), 0u) << "all bits are gone";
  EXPECT_EQ(Evaluate(smallest + "\x08\xff\x26"), ~std::uint64_t{0});
  EXPECT_EQ(Evaluate("\x31\x1f"), ~std::uint64_t{0});
  EXPECT_EQ(Evaluate("\x31\x20"), ~std::uint64_t{1});
  EXPECT_EQ(Evaluate("\x31\x1f\x19"), 1u);
}

TEST(DwarfExpressionTest, Comparisons) {
  EXPECT_EQ(OfTwo(3, 0x29, 3), 1u);
  EXPECT_EQ(OfTwo(3, 0x2a, 3), 1u);
  EXPECT_EQ(OfTwo(3, 0x2b, 3), 0u);
  EXPECT_EQ(OfTwo(3, 0x2c, 3), 1u);
  EXPECT_EQ(OfTwo(3, 0x2d, 3), 0u);
  EXPECT_EQ(OfTwo(3, 0x2e, 3), 0u);
}

TEST(DwarfExpressionTest, TheStackIsArranged) {
  EXPECT_EQ(Evaluate("\x31\x32\x12\x22\x22"), 5u) << "dup";
  EXPECT_EQ(Evaluate("\x31\x32\x13"), 1u) << "drop";
  EXPECT_EQ(Evaluate("\x31\x32\x14"), 1u) << "over";
  EXPECT_EQ(Evaluate("\x31\x32\x33\x15\x02"), 1u) << "pick";
  EXPECT_EQ(Evaluate("\x33\x31\x16\x1c"), ~std::uint64_t{1}) << "swap";
  EXPECT_EQ(Evaluate("\x31\x32\x33\x17"), 2u) << "rot";
  EXPECT_EQ(Evaluate("\x31\x96"), 1u) << "nop";
  EXPECT_EQ(Evaluate("\x38\x1c", 100), 92u) << "with the frame's address";
}

TEST(DwarfExpressionTest, ItMayJump) {
  EXPECT_EQ(Evaluate("\x31\x2f" + Little(1, 2) + "\x13\x32"), 2u);
  EXPECT_EQ(Evaluate("\x35\x31\x28" + Little(1, 2) + "\x13"), 5u);
  EXPECT_EQ(Evaluate("\x35\x30\x28" + Little(1, 2) + "\x13"), std::nullopt);
  EXPECT_EQ(Evaluate("\x2f" + Little(0xfffd, 2)), std::nullopt) << "round in a circle";
  EXPECT_EQ(Evaluate("\x2f" + Little(0x7fff, 2)), std::nullopt);
  EXPECT_EQ(Evaluate("\x2f" + Little(0x8000, 2)), std::nullopt);
}

TEST(DwarfExpressionTest, WhatMakesNoSenseHasNoValue) {
  EXPECT_EQ(Evaluate(""), std::nullopt);
  EXPECT_EQ(Evaluate("\x22"), std::nullopt) << "of nothing";
  EXPECT_EQ(Evaluate("\x0c\x01"), std::nullopt) << "cut off";
  EXPECT_EQ(Evaluate("\x10\xff"), std::nullopt);
  EXPECT_EQ(Evaluate("\xf0"), std::nullopt) << "no such operation";
  EXPECT_EQ(Evaluate("\x15\x05"), std::nullopt);
  EXPECT_EQ(Evaluate(std::string(65, '\x30')), std::nullopt) << "too many values";
}

/// A PLT entry of the GNU linker: 8 more bytes are on the stack from its 11th byte on.
TEST(DwarfExpressionTest, AnEntryOfAPlt) {
  // breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
  const std::string plt("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 11);
  EXPECT_EQ(Evaluate(plt), 108u) << "its program counter is 0";
}

}  // namespace
}  // namespace tfos
