#include "feed/node/session/outgoing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "feed/wire/frame.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Bytes(const std::vector<OutFrame>& frames) {
  std::vector<std::string> bytes;
  for (const OutFrame& frame : frames) bytes.push_back(frame.bytes);
  return bytes;
}

class OutgoingTest : public ::testing::Test {
 protected:
  OutgoingTest() {
    line_.id = 7;
    other_.id = 8;
  }

  Outgoing outgoing_;
  Outgoing::Line line_;
  Outgoing::Line other_;
};

TEST_F(OutgoingTest, SaysWhatWasPostedInOrder) {
  outgoing_.Post(line_, {.bytes = "first"});
  outgoing_.Post(line_, {.bytes = "second"});
  EXPECT_FALSE(line_.empty());
  EXPECT_THAT(Bytes(outgoing_.Take(line_, {})), ElementsAre("first", "second"));
  EXPECT_TRUE(line_.empty());
  EXPECT_THAT(outgoing_.Take(line_, {}), IsEmpty());
}

TEST_F(OutgoingTest, ListsALineOnceUntilItIsTaken) {
  outgoing_.Post(line_, {.bytes = "first"});
  outgoing_.Post(other_, {.bytes = "other"});
  EXPECT_THAT(outgoing_.TakeChanged(), ElementsAre(7, 8));
  outgoing_.Post(line_, {.bytes = "second"});
  EXPECT_THAT(outgoing_.TakeChanged(), IsEmpty()) << "its socket has not taken the first";
  EXPECT_EQ(outgoing_.Take(line_, {}).size(), 2u);
  outgoing_.Post(line_, {.bytes = "third"});
  EXPECT_THAT(outgoing_.TakeChanged(), ElementsAre(7));
}

TEST_F(OutgoingTest, HasNewsWhenTheFirstLineIsListed) {
  EXPECT_FALSE(outgoing_.TakeNews());
  outgoing_.Post(line_, {.bytes = "first"});
  EXPECT_TRUE(outgoing_.TakeNews());
  outgoing_.Post(other_, {.bytes = "other"});
  EXPECT_FALSE(outgoing_.TakeNews()) << "the listener was woken already";
  outgoing_.TakeChanged();
  outgoing_.Take(line_, {});
  outgoing_.Post(line_, {.bytes = "second"});
  EXPECT_TRUE(outgoing_.TakeNews());
}

TEST_F(OutgoingTest, NothingFollowsTheLastWord) {
  outgoing_.Post(line_, {.bytes = "first"});
  outgoing_.PostLast(line_, "last");
  EXPECT_TRUE(line_.said_last_word());
  outgoing_.Post(line_, {.bytes = "late"});
  outgoing_.PostLast(line_, "later");
  outgoing_.PostProgress(line_);
  outgoing_.AddCredits(line_, 1);
  EXPECT_THAT(Bytes(outgoing_.Take(line_, {})), ElementsAre("first", "last"));
}

TEST_F(OutgoingTest, CreditsAndProgressDoNotPileUp) {
  for (int i = 0; i < 1000; ++i) {
    outgoing_.AddCredits(line_, 2);
    outgoing_.PostProgress(line_);
  }
  EXPECT_FALSE(line_.empty());
  const AcceptedBytes accepted{.of_epoch = 7, .of_all = 99};
  EXPECT_THAT(
      Bytes(outgoing_.Take(line_, accepted)),
      ElementsAre(Encode(CreditMessage{.chunks = 2000, .accepted = accepted}), EncodeProgress()));
  EXPECT_TRUE(line_.empty());
}

TEST_F(OutgoingTest, ALineWithTooManyPlainFramesIsOverfull) {
  AlignedBuffer result(2 * Outgoing::kMostWaitingBytes);
  outgoing_.Post(line_, {.bytes = "result", .result = std::move(result)});
  EXPECT_FALSE(line_.overfull()) << "results are bounded elsewhere";
  outgoing_.Post(line_, {.bytes = std::string(Outgoing::kMostWaitingBytes, 'x')});
  EXPECT_TRUE(line_.overfull());
  outgoing_.Take(line_, {});
  EXPECT_FALSE(line_.overfull());
}

}  // namespace
}  // namespace tfos::feed
