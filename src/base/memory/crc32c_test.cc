#include "base/memory/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace tfos {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Bit by bit, from the definition.
std::uint32_t SlowCrc(std::uint32_t crc, std::span<const std::byte> bytes) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

TEST(Crc32cTest, KnownValues) {
  // Values of RFC 3720, appendix B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43U);
  EXPECT_EQ(Crc32c({}), 0U);
}

TEST(Crc32cTest, EveryWayGivesTheSameForEveryLengthAndAddress) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(30'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  int ways = 0;
  for (const Crc32cWay& way : Crc32cWays()) {
    if (way.extend == nullptr) continue;
    ++ways;
    for (std::size_t length = 0; length < bytes.size() - 64; length += 1 + length / 40) {
      const std::size_t start = length % 64;
      const auto part = std::span<const std::byte>(bytes).subspan(start, length);
      const std::uint32_t before = length % 3 == 0 ? 0 : static_cast<std::uint32_t>(random());
      ASSERT_EQ(way.extend(before, part.data(), part.size()), SlowCrc(before, part))
          << way.name << ", " << length << " bytes";
    }
  }
  EXPECT_GE(ways, 1);
}

TEST(Crc32cTest, ExtendsByParts) {
  std::vector<std::byte> bytes(20'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0U, 1U, 500U, 10'000U, 19'999U, 20'000U}) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(all.first(cut)), all.subspan(cut)), Crc32c(all)) << cut;
  }
}

TEST(Crc32cTest, MasksAsTensorFlowDoes) {
  // The first 12 bytes that tf.io.TFRecordWriter writes for a record of 5 bytes.
  const std::uint8_t length[] = {5, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(MaskedCrc32c(std::as_bytes(std::span(length))), 0x3E04B2EAU);
}

}  // namespace
}  // namespace tfos
