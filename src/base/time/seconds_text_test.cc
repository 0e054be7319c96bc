#include "base/time/seconds_text.h"

#include <gtest/gtest.h>

namespace tfos {
namespace {

TEST(SecondsTextTest, IsReadable) {
  EXPECT_EQ(SecondsText(std::chrono::hours(2)), "7200 s");
  EXPECT_EQ(SecondsText(std::chrono::minutes(10)), "600 s");
  EXPECT_EQ(SecondsText(std::chrono::seconds(100)), "100 s");
  EXPECT_EQ(SecondsText(std::chrono::seconds(99)), "99 s");
  EXPECT_EQ(SecondsText(std::chrono::milliseconds(50)), "0.05 s");
  EXPECT_EQ(SecondsText(std::chrono::hours(24 * 365)), "31536000 s");
}

}  // namespace
}  // namespace tfos
