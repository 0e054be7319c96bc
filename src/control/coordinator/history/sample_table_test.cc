#include "control/coordinator/history/sample_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr milliseconds kSecond(1000);

/// Takes `count` samples, a second apart, of a value that is the number of its second.
void Fill(SampleTable& table, std::size_t column, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    if (table.Begin(i * kSecond)) table.Set(column, static_cast<float>(i));
  }
}

TEST(SampleTableTest, KeepsTheLatestMoments) {
  SampleTable table(8, kSecond, SampleTable::WhenFull::kDropOldest);
  const std::size_t column = table.AddColumn();
  Fill(table, column, 0, 9);
  EXPECT_THAT(table.column(column), ElementsAre(2, 3, 4, 5, 6, 7, 8));
  Fill(table, column, 9, 100'000);
  EXPECT_EQ(table.times().back(), 100'008 * kSecond);
  EXPECT_GE(table.times().size(), 6u);
  EXPECT_LE(table.times().size(), 8u);
  EXPECT_EQ(table.interval(), kSecond);
}

TEST(SampleTableTest, KeepsTheWholeRunInEverLongerSteps) {
  SampleTable table(8, kSecond, SampleTable::WhenFull::kHalve);
  const std::size_t column = table.AddColumn();
  Fill(table, column, 0, 9);
  EXPECT_THAT(table.column(column), ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(table.interval(), 2 * kSecond);
  Fill(table, column, 9, 1);
  EXPECT_THAT(table.column(column), ElementsAre(1, 3, 5, 7, 9));
  Fill(table, column, 10, 7200);
  EXPECT_LE(table.times().size(), 8u);
  EXPECT_GE(table.times().size(), 4u);
  // The run's beginning is still there, and all steps are alike.
  EXPECT_LT(table.times().front(), table.interval());
  for (std::size_t i = 1; i < table.times().size(); ++i) {
    EXPECT_EQ(table.times()[i] - table.times()[i - 1], table.interval());
  }
}

TEST(SampleTableTest, AMomentThatComesALittleEarlyCounts) {
  SampleTable table(8, kSecond, SampleTable::WhenFull::kDropOldest);
  EXPECT_TRUE(table.Begin(milliseconds(0)));
  EXPECT_FALSE(table.Begin(milliseconds(500)));
  EXPECT_TRUE(table.Begin(milliseconds(990)));
}

TEST(SampleTableTest, AMomentIsPutOffWhileTheNextHasNotCome) {
  SampleTable table(8, kSecond, SampleTable::WhenFull::kDropOldest);
  const std::size_t column = table.AddColumn();
  Fill(table, column, 0, 2);
  table.BeginOrPutOff(milliseconds(1500));
  EXPECT_THAT(table.times(), ElementsAre(milliseconds(0), milliseconds(1500)));
  EXPECT_THAT(table.column(column), ElementsAre(0, 1));
  table.BeginOrPutOff(milliseconds(2500));
  EXPECT_THAT(table.times(), ElementsAre(milliseconds(0), milliseconds(1500), milliseconds(2500)));
  EXPECT_TRUE(std::isnan(table.column(column)[2]));
}

TEST(SampleTableTest, AValueIsUnknownBeforeItsColumnAndWhereItWasNotSet) {
  SampleTable table(8, kSecond, SampleTable::WhenFull::kDropOldest);
  ASSERT_TRUE(table.Begin(milliseconds(0)));
  const std::size_t column = table.AddColumn();
  ASSERT_TRUE(table.Begin(kSecond));
  table.Set(column, 5);
  ASSERT_TRUE(table.Begin(2 * kSecond));
  ASSERT_THAT(table.column(column), SizeIs(3));
  EXPECT_TRUE(std::isnan(table.column(column)[0]));
  EXPECT_EQ(table.column(column)[1], 5);
  EXPECT_TRUE(std::isnan(table.column(column)[2]));
}

}  // namespace
}  // namespace tfos::control
