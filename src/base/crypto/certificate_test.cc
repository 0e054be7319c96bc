#include "base/crypto/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// That Python's TLS takes it, and no other in its place, is tested with the keeper.
TEST(CertificateTest, EachIsNewAndComesAsPem) {
  const auto one = MakeCertificate();
  const auto other = MakeCertificate();
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  EXPECT_THAT(one->certificate, StartsWith("-----BEGIN CERTIFICATE-----\n"));
  EXPECT_THAT(one->private_key, HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_NE(one->certificate, other->certificate);
  EXPECT_NE(one->private_key, other->private_key);
}

}  // namespace
}  // namespace tfos
