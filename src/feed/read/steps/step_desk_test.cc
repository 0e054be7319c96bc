#include "feed/read/steps/step_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;

const StepReport kEnded = {
    .queue = "input", .epoch = 3, .full_batches = 2, .ended = true, .batches = 2};

/// The coordinator's end: it refuses what comes as long as `answer` says so.
class StepTicketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tickets_.SetSender([this](const StepReport& report) {
      if (answer_.ok()) heard_.push_back(report);
      return answer_;
    });
  }

  StepDesk tickets_;
  Status answer_;
  std::vector<StepReport> heard_;
};

TEST_F(StepTicketsTest, TheSameReportIsSentOnce) {
  EXPECT_TRUE(tickets_.Report(kEnded).ok());
  EXPECT_TRUE(tickets_.Report(kEnded).ok());
  EXPECT_THAT(heard_, ElementsAre(kEnded));
}

TEST_F(StepTicketsTest, AReportThatWasNotSentIsSentAgain) {
  answer_ = Status(ErrorKind::kNoResources, "no memory");
  EXPECT_EQ(tickets_.Report(kEnded).kind(), ErrorKind::kNoResources);
  answer_ = {};
  EXPECT_TRUE(tickets_.Report(kEnded).ok());
  EXPECT_THAT(heard_, ElementsAre(kEnded)) << "the epoch's end would never become known";
}

TEST_F(StepTicketsTest, GrantsThatAreEverNewAreNotKeptInFull) {
  const std::string queue(1 << 20, 'q');
  constexpr std::uint32_t kGrants = 200;
  for (std::uint32_t epoch = 0; epoch < kGrants; ++epoch) {
    tickets_.OnGrant({.queue = queue, .epoch = epoch, .granted = 1, .missing = {}});
  }
  const auto any = [](const StepGrant&) { return true; };
  const Wait no_wait{.deadline = Deadline::After({})};
  EXPECT_TRUE(tickets_.Await(queue, 0, any, no_wait).ok());
  EXPECT_EQ(tickets_.Await(queue, kGrants - 1, any, no_wait).status().kind(),
            ErrorKind::kRetryLater);
  // Those before it have left, so there is room.
  tickets_.OnGrant({.queue = queue, .epoch = kGrants - 1, .granted = 1, .missing = {}});
  EXPECT_TRUE(tickets_.Await(queue, kGrants - 1, any, no_wait).ok());
}

TEST_F(StepTicketsTest, AGrantThatReplacesAnotherTakesItsRoom) {
  const std::vector<std::string> missing(1, std::string(StepDesk::kMostGrantBytes / 2, 'm'));
  for (std::uint64_t granted = 1; granted < 5; ++granted) {
    tickets_.OnGrant({.queue = "input", .epoch = 3, .granted = granted, .missing = missing});
  }
  const auto grant = tickets_.Await("input", 3, [](const StepGrant&) { return true; },
                                    {.deadline = Deadline::After({})});
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->granted, 4U);
}

TEST_F(StepTicketsTest, WaitsForOtherNodesRowsAreCounted) {
  const auto any = [](const StepGrant&) { return true; };
  constexpr std::chrono::milliseconds kTime(20);
  for (const auto least : {kTime, 2 * kTime}) {
    EXPECT_FALSE(tickets_.Await("input", 3, any, {.deadline = Deadline::After(kTime)}).ok());
    EXPECT_GE(tickets_.waited(), least);
  }
  const auto waited = tickets_.waited();
  tickets_.OnGrant({.queue = "input", .epoch = 3, .granted = 1, .missing = {}});
  EXPECT_TRUE(tickets_.Await("input", 3, any, {.deadline = Deadline::After(kTime)}).ok());
  EXPECT_EQ(tickets_.waited(), waited) << "what was there was not waited for";
}

// Readers take kRetryLater for a wait that goes on.
TEST_F(StepTicketsTest, ALinkThatTakesNoReportsIsNoWait) {
  answer_ = Status(ErrorKind::kRetryLater, "the agent does not take messages in time");
  EXPECT_EQ(tickets_.Report(kEnded).kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
