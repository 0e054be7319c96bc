#include "base/text/query.h"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>

namespace tfos {
namespace {

TEST(QueryTest, IsTakenPartByPart) {
  std::string_view query = "node=1&after=&more";
  std::string_view first = TakeUntil('&', query);
  EXPECT_EQ(TakeUntil('=', first), "node");
  EXPECT_EQ(first, "1");
  EXPECT_EQ(TakeUntil('&', query), "after=");
  EXPECT_EQ(TakeUntil('&', query), "more");
  EXPECT_TRUE(query.empty());
}

TEST(QueryTest, ANumberIsAllOfTheText) {
  int number = 0;
  EXPECT_TRUE(ReadNumber("17", 0, 17, number));
  EXPECT_EQ(number, 17);
  EXPECT_TRUE(ReadNumber("-3", -5, 0, number));
  for (const std::string_view bad : {"", " 1", "1 ", "+1", "0x1", "1.0", "18", "99999999999"}) {
    EXPECT_FALSE(ReadNumber(bad, 0, 17, number)) << bad;
  }
}

}  // namespace
}  // namespace tfos
