#include "base/thread/turn.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace tfos {
namespace {

using namespace std::chrono_literals;

struct Shared {
  Turn turn;
  int value TFOS_GUARDED_BY(turn) = 0;

  Status Add(const Wait& wait) {
    Status why_not;
    if (!turn.Take(wait, why_not)) return why_not;
    const TurnHolder holder(turn);
    ++value;
    return {};
  }
};

TEST(TurnTest, ThreadsComeOneAfterTheOther) {
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&shared] {
      for (int added = 0; added < 1000; ++added) EXPECT_TRUE(shared.Add({}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  Status why_not;
  if (!shared.turn.Take({}, why_not)) FAIL() << "nobody has it";
  const TurnHolder holder(shared.turn);
  EXPECT_EQ(shared.value, 4000);
}

TEST(TurnTest, AFreeTurnIsTakenWithoutTimeToWait) {
  Shared shared;
  EXPECT_TRUE(shared.Add({.deadline = Deadline::After(0s)}).ok());
}

TEST(TurnTest, WhoWaitsKeepsItsDeadlineAndItsCheck) {
  Shared shared;
  Status why_not;
  if (!shared.turn.Take({}, why_not)) FAIL() << "nobody has it";
  {
    const TurnHolder holder(shared.turn);
    EXPECT_EQ(shared.Add({.deadline = Deadline::After(10ms)}).kind(), ErrorKind::kRetryLater);
    const Status interrupted =
        shared.Add({.check = [] { return Status(ErrorKind::kInterrupted, "a signal"); }});
    EXPECT_EQ(interrupted.kind(), ErrorKind::kInterrupted);
  }
  EXPECT_TRUE(shared.Add({}).ok());
}

}  // namespace
}  // namespace tfos
