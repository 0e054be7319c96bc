#include "control/page/viewers.h"

#include <gtest/gtest.h>

#include <string>

namespace tfos::control {
namespace {

using std::chrono::seconds;
using Part = Viewers::Part;

constexpr seconds kInterval{2};

TEST(ViewersTest, APageNamesItself) {
  EXPECT_EQ(Viewers::NameIn("range=recent&page=a1B2&nodes="), "a1B2");
  EXPECT_EQ(Viewers::NameIn("page=a1"), "a1");
  EXPECT_EQ(Viewers::NameIn(""), "");
  EXPECT_EQ(Viewers::NameIn("page="), "");
  EXPECT_EQ(Viewers::NameIn("pages=a1&page=a-1"), "");
  EXPECT_FALSE(Viewers::IsName(std::string(Viewers::kMostNameBytes + 1, 'a')));
}

TEST(ViewersTest, NobodyIsAwaitedWhereNobodyHasAsked) {
  Viewers viewers;
  viewers.BeginEnd();
  EXPECT_TRUE(viewers.AllHaveTheEnd(Clock::TimePoint()));
}

TEST(ViewersTest, APageHasTheEndOnceBothOfItsAnswersWereSent) {
  Viewers viewers;
  const Clock::TimePoint now;
  const Viewers::Look before = viewers.Begin("a", Part::kHistory, kInterval, now);
  viewers.BeginEnd();
  EXPECT_FALSE(viewers.AllHaveTheEnd(now));
  viewers.End(before);
  const Viewers::Look status = viewers.Begin("a", Part::kStatus, kInterval, now);
  const Viewers::Look history = viewers.Begin("a", Part::kHistory, kInterval, now);
  viewers.End(status);
  EXPECT_FALSE(viewers.AllHaveTheEnd(now)) << "the history was of the time before the end";
  viewers.End(history);
  EXPECT_TRUE(viewers.AllHaveTheEnd(now));
  viewers.Begin("b", Part::kStatus, kInterval, now);
  EXPECT_FALSE(viewers.AllHaveTheEnd(now)) << "another page";
}

TEST(ViewersTest, APageThatHasNotAskedForLongIsNotAwaited) {
  Viewers viewers;
  const Clock::TimePoint now;
  viewers.Begin("a", Part::kStatus, kInterval, now);
  viewers.BeginEnd();
  const Clock::TimePoint late = now + kInterval + Viewers::kLate;
  EXPECT_FALSE(viewers.AllHaveTheEnd(late));
  EXPECT_EQ(viewers.LongestWait(now), late - now);
  EXPECT_TRUE(viewers.AllHaveTheEnd(late + seconds(1)));
  EXPECT_EQ(viewers.LongestWait(late + seconds(1)), seconds(0));
}

TEST(ViewersTest, APageThatAsksSeldomIsAwaitedForLonger) {
  Viewers viewers;
  const Clock::TimePoint now;
  viewers.Begin("a", Part::kStatus, seconds(10), now);
  viewers.Begin("a", Part::kHistory, seconds(10), now);
  viewers.BeginEnd();
  const Clock::TimePoint again = now + seconds(10);
  EXPECT_FALSE(viewers.AllHaveTheEnd(again));
  EXPECT_EQ(viewers.LongestWait(again - seconds(1)), seconds(1) + Viewers::kLate);
  viewers.End(viewers.Begin("a", Part::kStatus, seconds(10), again));
  viewers.End(viewers.Begin("a", Part::kHistory, seconds(10), again));
  EXPECT_TRUE(viewers.AllHaveTheEnd(again));
  EXPECT_EQ(viewers.LongestWait(again), seconds(0)) << "it has the end";
}

TEST(ViewersTest, ManyPagesTakeBoundedMemory) {
  Viewers viewers;
  const Clock::TimePoint now;
  for (std::size_t i = 0; i < Viewers::kMost; ++i) {
    viewers.End(viewers.Begin(std::to_string(i), Part::kStatus, kInterval, now));
  }
  const Viewers::Look one_more = viewers.Begin("more", Part::kStatus, kInterval, now);
  viewers.BeginEnd();
  viewers.End(one_more);
  EXPECT_TRUE(viewers.AllHaveTheEnd(now + 2 * (kInterval + Viewers::kLate)));
  viewers.Begin("more", Part::kStatus, kInterval, now + 2 * (kInterval + Viewers::kLate));
  EXPECT_FALSE(viewers.AllHaveTheEnd(now + 2 * (kInterval + Viewers::kLate)))
      << "old ones made room";
}

}  // namespace
}  // namespace tfos::control
