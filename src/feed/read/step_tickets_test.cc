#include "feed/read/step_tickets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  StepTickets tickets_;
  Status answer_;
  std::vector<StepReport> heard_;
};

TEST_F(StepTicketsTest, TheSameReportIsSentOnce) {
  EXPECT_TRUE(tickets_.Report(kEnded, 0).ok());
  EXPECT_TRUE(tickets_.Report(kEnded, 0).ok());
  EXPECT_THAT(heard_, ElementsAre(kEnded));
}

TEST_F(StepTicketsTest, AReportThatWasNotSentIsSentAgain) {
  answer_ = Status(ErrorKind::kNoResources, "no memory");
  EXPECT_EQ(tickets_.Report(kEnded, 0).kind(), ErrorKind::kNoResources);
  answer_ = {};
  EXPECT_TRUE(tickets_.Report(kEnded, 0).ok());
  EXPECT_THAT(heard_, ElementsAre(kEnded)) << "the epoch's end would never become known";
}

// Readers take kRetryLater for a wait that goes on.
TEST_F(StepTicketsTest, ALinkThatTakesNoReportsIsNoWait) {
  answer_ = Status(ErrorKind::kRetryLater, "the agent does not take messages in time");
  EXPECT_EQ(tickets_.Report(kEnded, 0).kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
