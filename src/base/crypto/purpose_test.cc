#include "base/crypto/purpose.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tfos {
namespace {

constexpr Purpose kAll[] = {Purpose::kJoin,       Purpose::kFeed,  Purpose::kTensors,
                            Purpose::kParameters, Purpose::kAsk,   Purpose::kRead,
                            Purpose::kScrape,     Purpose::kSteer, Purpose::kOperate};

TEST(PurposeTest, EachHasItsKey) {
  const Secret token = *Secret::FromHex(std::string(64, 'a'));
  std::set<std::string> keys = {token.ToHex()};
  for (const Purpose purpose : kAll) keys.insert(KeyFor(token, purpose).ToHex());
  EXPECT_EQ(keys.size(), 1 + std::size(kAll));
  const Secret other = *Secret::FromHex(std::string(64, 'b'));
  EXPECT_NE(KeyFor(other, Purpose::kFeed).ToHex(), KeyFor(token, Purpose::kFeed).ToHex());
}

/// Processes of one cluster may have different builds of one version.
TEST(PurposeTest, KeysDoNotChange) {
  const Secret token = *Secret::FromHex(std::string(64, '0'));
  EXPECT_EQ(KeyFor(token, Purpose::kJoin).ToHex(),
            "0af6362277b8280c77d4c3512487e46c1c1d7a20bdd00fa580f29892a7429270");
}

TEST(PurposeTest, NamesAreReadBack) {
  for (const Purpose purpose : kAll) {
    const auto read = PurposeFromName(PurposeName(purpose));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, purpose);
  }
  EXPECT_EQ(PurposeFromName("everything").status().kind(), ErrorKind::kBadInput);
}

}  // namespace
}  // namespace tfos
