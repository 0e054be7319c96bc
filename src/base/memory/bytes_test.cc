#include "base/memory/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

namespace tfos {
namespace {

enum class Colour : std::uint8_t { kRed = 0, kBlue = 1 };

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(BytesTest, WhatWasAppendedIsTakenInItsOrder) {
  std::string message;
  AppendBytes(std::uint32_t{0x01020304}, message);
  AppendBytes(Colour::kBlue, message);
  AppendBytes(std::uint8_t{1}, message);
  message += "text";
  EXPECT_EQ(message, std::string("\x04\x03\x02\x01\x01\x01text", 10));

  ByteReader reader(BytesOf(message));
  EXPECT_EQ(reader.Take<std::uint32_t>(), 0x01020304U);
  EXPECT_EQ(reader.TakeEnum(Colour::kBlue), Colour::kBlue);
  EXPECT_TRUE(reader.TakeFlag());
  EXPECT_FALSE(reader.complete()) << "something is left";
  EXPECT_EQ(reader.TakeText(4), "text");
  EXPECT_TRUE(reader.complete());
}

TEST(BytesTest, NothingIsTakenBehindAPieceThatIsMissing) {
  const std::string message("\x01\x02\x03", 3);
  ByteReader reader(BytesOf(message));
  EXPECT_EQ(reader.Take<std::uint32_t>(), 0U);
  EXPECT_EQ(reader.Take<std::uint8_t>(), 0U) << "the three bytes are gone, too";
  EXPECT_TRUE(reader.TakeBytes(1).empty());
  EXPECT_EQ(reader.left(), 0U);
  EXPECT_FALSE(reader.complete());
}

TEST(BytesTest, FlagsAndEnumsHaveTheirValuesOnly) {
  const std::string message("\x02", 1);
  ByteReader flag(BytesOf(message));
  EXPECT_FALSE(flag.TakeFlag());
  EXPECT_FALSE(flag.complete());
  ByteReader colour(BytesOf(message));
  (void)colour.TakeEnum(Colour::kBlue);
  EXPECT_FALSE(colour.complete());
}

TEST(BytesTest, AReaderOfNothingIsComplete) { EXPECT_TRUE(ByteReader({}).complete()); }

}  // namespace
}  // namespace tfos
