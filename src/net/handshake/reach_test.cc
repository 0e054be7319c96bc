#include "net/handshake/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tfos::net {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kNoPause{0};

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

Status Closed() { return {ErrorKind::kReconnect, "the other end closed the connection"}; }

// As behind a proxy that takes connections for a member that has not come yet.
TEST(ReachTest, AConnectionMayCloseAsOftenAsTheDeadlineAllows) {
  int attempts = 0;
  const Status reached = Reach(
      Long(),
      [&](bool& connected) {
        connected = true;
        return ++attempts <= 50 ? Closed() : Status::Ok();
      },
      kNoPause);
  EXPECT_TRUE(reached.ok()) << reached.ToString();
  EXPECT_EQ(attempts, 51);
}

TEST(ReachTest, TheDeadlineEndsItWithTheLastAttemptsError) {
  int attempts = 0;
  const Status reached =
      Reach({.deadline = Deadline::After(milliseconds(100))}, [&](bool& connected) {
        connected = ++attempts > 1;
        return Closed();
      });
  EXPECT_EQ(reached.kind(), ErrorKind::kReconnect);
  EXPECT_GE(attempts, 2);
  EXPECT_THAT(reached.ToString(), HasSubstr("closed the connection"));
}

TEST(ReachTest, ARefusalInWordsEndsItAtOnce) {
  int attempts = 0;
  const Status reached = Reach(Long(), [&](bool& connected) -> Status {
    connected = true;
    ++attempts;
    return {ErrorKind::kBadInput, "no"};
  });
  EXPECT_EQ(reached.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(attempts, 1);
}

TEST(ReachTest, TheCheckEndsItWhileItPauses) {
  int attempts = 0;
  const Wait wait{.deadline = Deadline::Infinite(), .check = [&]() -> Status {
                    if (attempts < 3) return {};
                    return {ErrorKind::kUnsupported, "interrupted"};
                  }};
  const Status reached = Reach(wait, [&](bool& connected) {
    connected = true;
    ++attempts;
    return Closed();
  });
  EXPECT_EQ(reached.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(attempts, 3);
}

}  // namespace
}  // namespace tfos::net
