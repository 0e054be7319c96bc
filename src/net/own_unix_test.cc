#include "net/own_unix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "net/listen.h"
#include "net/socket.h"
#include "testing/squatter.h"

namespace tfos::net {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tfos::testing::Squatter;

std::string NewName() { return "tfos-own-unix-test-" + RandomHex(16).value(); }

/// Takes a place in the socket's queue, where nobody accepts.
UniqueFd Fill(const std::string& name) {
  auto fills = ConnectUnix(name, {});
  EXPECT_TRUE(fills.ok() && fills->has_value());
  return fills.ok() && *fills ? std::move(**fills) : UniqueFd();
}

/// What a call comes to, how often it has asked whether to go on waiting, and what it has logged.
struct Tried {
  Result<std::optional<UniqueFd>> socket = std::optional<UniqueFd>();
  int waits = 0;
  std::string log;
};
Tried Try(const std::string& name) {
  Tried tried;
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  tried.socket = ConnectOwnUnix(name, {.check = [&] {
                                  ++tried.waits;
                                  return Status();
                                }});
  tried.log = ::testing::internal::GetCapturedStdout();
  return tried;
}

void ExpectPassedOver(const Tried& tried) {
  ASSERT_TRUE(tried.socket.ok()) << tried.socket.status().ToString();
  EXPECT_FALSE(tried.socket->has_value());
}

TEST(OwnUnixTest, WhereNobodyListensThereIsNone) {
  const Tried tried = Try(NewName());
  ExpectPassedOver(tried);
  EXPECT_THAT(tried.log, IsEmpty());
}

TEST(OwnUnixTest, AnotherUsersSocketIsNamedOnce) {
  const std::string name = NewName();
  const Squatter squatter(name, 16);
  const Tried first = Try(name);
  ExpectPassedOver(first);
  EXPECT_THAT(first.log, HasSubstr("belongs to user 65534"));
  const Tried second = Try(name);
  ExpectPassedOver(second);
  EXPECT_THAT(second.log, IsEmpty());
}

TEST(OwnUnixTest, AFullQueueIsWaitedForAndNamedOnce) {
  const std::string name = NewName();
  const Squatter squatter(name, 0);
  const UniqueFd fills = Fill(name);
  const Tried first = Try(name);
  ExpectPassedOver(first);
  EXPECT_GT(first.waits, 0);
  EXPECT_THAT(first.log, HasSubstr("accepted no connection"));
  for (int i = 0; i < 3; ++i) {
    const Tried again = Try(name);
    ExpectPassedOver(again);
    EXPECT_EQ(again.waits, 0);
    EXPECT_THAT(again.log, IsEmpty());
  }
}

// A node that was busy is not left out for ever.
TEST(OwnUnixTest, AServerThatTakesConnectionsAgainIsTakenAgain) {
  const std::string name = NewName();
  const UniqueFd listener = ListenUnix(name).value();
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  UniqueFd fills = Fill(name);
  ExpectPassedOver(Try(name));
  ASSERT_TRUE(UniqueFd(::accept(listener.get(), nullptr, nullptr)).valid());
  const Tried taken = Try(name);
  ASSERT_TRUE(taken.socket.ok()) << taken.socket.status().ToString();
  EXPECT_TRUE(taken.socket->has_value());
  EXPECT_EQ(taken.waits, 0);
  // And is waited for again.
  const Tried full = Try(name);
  ExpectPassedOver(full);
  EXPECT_GT(full.waits, 0);
  EXPECT_THAT(full.log, HasSubstr("accepted no connection"));
}

// Without TCP there is nothing to pass over to.
TEST(OwnUnixTest, WhereThereIsNoOtherWayTheReasonIsTheError) {
  const std::string taken = NewName();
  const Squatter squatter(taken, 16);
  const auto other_user = ConnectOnlyOwnUnix(taken, {});
  EXPECT_EQ(other_user.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(other_user.status().ToString(), HasSubstr("belongs to user 65534"));

  const std::string busy = NewName();
  const UniqueFd listener = ListenUnix(busy).value();
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const UniqueFd fills = Fill(busy);
  const auto full = ConnectOnlyOwnUnix(busy, {.deadline = Deadline::After(Clock::Duration{})});
  EXPECT_EQ(full.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(full.status().ToString(), HasSubstr("accepted no connection within the deadline"));

  const auto none = ConnectOnlyOwnUnix(NewName(), {});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

}  // namespace
}  // namespace tfos::net
