#include "feed/node/session/memory_grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool Nobody(std::uint64_t) { return false; }

/// Grants what can be, and says to whom.
std::vector<std::uint64_t> GrantAll(MemoryGrants& grants,
                                    const std::function<bool(std::uint64_t)>& first = Nobody) {
  std::vector<std::uint64_t> sessions;
  while (const auto request = grants.Grant(first)) sessions.push_back(request->session);
  return sessions;
}

TEST(MemoryGrantsTest, GrantsInOrderUntilTheBudgetIsUsed) {
  MemoryGrants grants(100);
  for (const std::uint64_t session : {1, 2, 3}) grants.Ask({.session = session, .bytes = 50});
  EXPECT_THAT(GrantAll(grants), ElementsAre(1, 2));
  EXPECT_EQ(grants.in_use(), 100u);
  EXPECT_EQ(grants.spare(), 0u);
  grants.Recount(50, 0);
  EXPECT_THAT(GrantAll(grants), ElementsAre(3));
}

TEST(MemoryGrantsTest, NobodyOvertakes) {
  MemoryGrants grants(100);
  grants.Ask({.session = 1, .bytes = 60});
  grants.Ask({.session = 2, .bytes = 60});
  grants.Ask({.session = 3, .bytes = 10});
  EXPECT_THAT(GrantAll(grants), ElementsAre(1)) << "else 2 might wait for ever";
  grants.Recount(60, 0);
  EXPECT_THAT(GrantAll(grants), ElementsAre(2, 3));
}

TEST(MemoryGrantsTest, ALargeOneIsGrantedAlone) {
  MemoryGrants grants(100);
  grants.Ask({.session = 1, .bytes = 10});
  grants.Ask({.session = 2, .bytes = ~std::uint64_t{0}});
  grants.Ask({.session = 3, .bytes = 10});
  EXPECT_THAT(GrantAll(grants), ElementsAre(1));
  grants.Recount(10, 0);
  EXPECT_THAT(GrantAll(grants), ElementsAre(2));
  EXPECT_EQ(grants.spare(), 0u);
  grants.Recount(~std::uint64_t{0}, 0);
  EXPECT_THAT(GrantAll(grants), ElementsAre(3));
}

TEST(MemoryGrantsTest, ASessionThatIsWaitedForGrowsAtOnce) {
  MemoryGrants grants(100);
  grants.Ask({.session = 1, .bytes = 100});
  EXPECT_THAT(GrantAll(grants), ElementsAre(1));
  grants.Ask({.session = 2, .bytes = 10});
  grants.Ask({.session = 3, .bytes = 10});
  grants.Ask({.session = 4, .bytes = 70, .growing = true});
  const auto is = [](std::uint64_t wanted) {
    return [wanted](std::uint64_t session) { return session == wanted; };
  };
  EXPECT_THAT(GrantAll(grants, is(3)), IsEmpty()) << "it is not open: nobody waits for it";
  EXPECT_THAT(GrantAll(grants, is(4)), ElementsAre(4));
  EXPECT_EQ(grants.in_use(), 170u);
  EXPECT_EQ(grants.spare(), 0u);
}

TEST(MemoryGrantsTest, WhatCountsMayChange) {
  MemoryGrants grants(100);
  grants.Ask({.session = 1, .bytes = 50});
  GrantAll(grants);
  grants.Recount(50, 64);  // Whole pages.
  EXPECT_EQ(grants.in_use(), 64u);
  grants.Recount(64, 4);  // Trimmed.
  EXPECT_EQ(grants.in_use(), 4u);
  EXPECT_EQ(grants.spare(), 96u);
}

TEST(MemoryGrantsTest, ForgetsWhoIsGone) {
  MemoryGrants grants(100);
  grants.Ask({.session = 1, .bytes = 100});
  GrantAll(grants);
  grants.Ask({.session = 2, .bytes = 100});
  grants.Ask({.session = 3, .bytes = 100, .growing = true});
  grants.Ask({.session = 4, .bytes = 100});
  EXPECT_THAT(grants.ForgetOpening(), ElementsAre(2, 4));
  grants.Recount(100, 0);
  EXPECT_THAT(GrantAll(grants), ElementsAre(3));
  grants.Ask({.session = 5, .bytes = 100});
  grants.Forget(5);
  grants.Recount(100, 0);
  EXPECT_THAT(GrantAll(grants), IsEmpty());
}

}  // namespace
}  // namespace tfos::feed
