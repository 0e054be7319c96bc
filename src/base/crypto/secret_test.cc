#include "base/crypto/secret.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include "base/format.h"

namespace tfos {
namespace {

TEST(SecretTest, HexRoundTrip) {
  Result<Secret> secret = Secret::Generate();
  ASSERT_TRUE(secret.ok());
  Result<Secret> again = Secret::FromHex(secret->ToHex());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->ToHex(), secret->ToHex());
}

TEST(SecretTest, MalformedHexIsRefusedWithoutBeingRepeated) {
  const std::string almost(63, 'a');
  for (const std::string& text : {std::string(), almost, almost + "g"}) {
    Result<Secret> secret = Secret::FromHex(text);
    ASSERT_FALSE(secret.ok());
    EXPECT_EQ(secret.status().ToString().find("aaaa"), std::string::npos);
  }
}

// RFC 4231 has no 32-byte key; the expected value is from Python's hmac module.
TEST(SecretTest, HmacMatchesAnIndependentImplementation) {
  Secret secret = *Secret::FromHex(std::string(64, '0'));
  Digest digest = HmacSha256(secret, "abc");
  std::string hex;
  for (std::uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  EXPECT_EQ(hex, "fd7adb152c05ef80dccf50a1fa4c05d5a3ec6da95575fc312ae7c5d091836351");
}

// Else both ends would prove themselves by the same zeros.
TEST(SecretDeathTest, EndsTheProcessWhenOpenSslRefusesToHash) {
  EXPECT_EXIT(
      {
        ::EVP_set_default_properties(nullptr, "provider=none");
        HmacSha256(*Secret::FromHex(std::string(64, '0')), "abc");
      },
      ::testing::KilledBySignal(SIGABRT), "could not compute HMAC-SHA256");
}

TEST(SecretTest, NothingOfItStaysBehind) {
  alignas(Secret) std::array<std::uint8_t, sizeof(Secret)> place;
  auto* const secret = new (place.data()) Secret(*Secret::FromHex(std::string(64, 'f')));
  EXPECT_EQ(place[7], 0xff);
  secret->~Secret();
  EXPECT_TRUE(std::ranges::all_of(place, [](std::uint8_t byte) { return byte == 0; }));
}

TEST(SecretTest, ConstantTimeEqualComparesContent) {
  EXPECT_TRUE(ConstantTimeEqual("same", "same"));
  EXPECT_FALSE(ConstantTimeEqual("same", "sane"));
  EXPECT_FALSE(ConstantTimeEqual("same", "same "));
}

TEST(SecretTest, RandomHexIsAsLongAsAsked) {
  Result<std::string> text = RandomHex(8);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size(), 16u);
}

}  // namespace
}  // namespace tfos
