#include "parameter_server/model/link_pushes.h"

#include <gtest/gtest.h>

namespace tfos::parameter_server {
namespace {

TEST(GoneLinksTest, WhatIsKnownOfALinkIsThereOnce) {
  GoneLinks gone;
  gone.Put(7, {.committed = 3, .step = 9, .combined = 128, .clock = 2});
  gone.Put(8, {.committed = 1});
  const LinkPushes pushes = gone.Take(7);
  EXPECT_EQ(pushes.committed, 3U);
  EXPECT_EQ(pushes.step, 9U);
  EXPECT_EQ(pushes.combined, 128U);
  EXPECT_EQ(pushes.clock, 2U);
  EXPECT_EQ(gone.Take(7).committed, 0U);
  EXPECT_EQ(gone.Take(8).committed, 1U);
  EXPECT_EQ(gone.size(), 0U);
}

TEST(GoneLinksTest, OnlyTheNewestAreKept) {
  GoneLinks gone;
  for (std::uint64_t link = 1; link <= GoneLinks::kMost + 1; ++link) {
    gone.Put(link, {.committed = link});
  }
  gone.Put(2, {.committed = 1000});  // It takes its own place.
  EXPECT_EQ(gone.size(), GoneLinks::kMost);
  EXPECT_EQ(gone.Take(1).committed, 0U);
  EXPECT_EQ(gone.Take(2).committed, 1000U);
  EXPECT_EQ(gone.Take(3).committed, 3U);
}

}  // namespace
}  // namespace tfos::parameter_server
