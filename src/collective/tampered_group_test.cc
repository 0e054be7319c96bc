// An active attacker between two members of a group on TLS. Neither takes tensors that the other
// one has not sent, and each is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collective/test_members.h"
#include "net/handshake/messages.h"
#include "net/listen.h"
#include "testing/middle_man.h"
#include "testing/raw_client.h"
#include "testing/tampering.h"

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tfos::testing::ChangeTheLast;
using tfos::testing::Downgrades;
using tfos::testing::MiddleMan;
using tfos::testing::OnMessages;
using tfos::testing::OverheardMessage;
using tfos::testing::PassedOn;
using tfos::testing::SaidToServer;
using tfos::testing::Tampering;
using tfos::testing::Tamperings;
using Direction = MiddleMan::Direction;

constexpr std::size_t kElements = 100;
/// For members whose connections close in each handshake: they try until then.
constexpr std::chrono::milliseconds kShort{500};

/// What the two members come to, the first of which accepts the connection of the second one.
struct Met {
  Status statuses[2];
  std::string log;

  bool ok() const { return statuses[0].ok() && statuses[1].ok(); }
  std::string ToString() const { return statuses[0].ToString() + "; " + statuses[1].ToString(); }
};

/// Sums up twice: what is summed is right, or there is an error.
Status Sum(Group& group) {
  for (const char* name : {"once", "twice"}) {
    std::vector<float> values(kElements, static_cast<float>(group.rank() + 1));
    const auto bytes = std::as_writable_bytes(std::span(values));
    TFOS_RETURN_IF_ERROR(group.AllReduce(DType::kFloat32, bytes, name));
    EXPECT_EQ(values, std::vector<float>(kElements, 3));
  }
  return {};
}

/// Has the two meet with somebody in the middle, and sum up. Neither waits for one that has given
/// up.
Met MeetThrough(const MiddleMan::Rule& rule,
                std::chrono::milliseconds connect_timeout = std::chrono::minutes(1)) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTls);
  EXPECT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  const MiddleMan middle_man(options[0].members[0].port, rule);
  options[1].members[0].port = middle_man.port();
  Met met;
  std::atomic<int> given_up = 0;
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  std::vector<std::thread> members;
  for (GroupOptions& one : options) {
    members.emplace_back([&] {
      const std::uint32_t rank = one.rank;
      one.connect_timeout = connect_timeout;
      one.check = [&given_up] {
        return given_up > 0 ? Status(ErrorKind::kInterrupted, "alone") : Status();
      };
      const auto group = Group::Join(std::move(one));
      met.statuses[rank] = group.ok() ? Sum(**group) : group.status();
      if (!met.statuses[rank].ok()) ++given_up;
      // The first one to leave would end the other's last sum.
      if (met.statuses[rank].ok()) met.statuses[rank] = (*group)->Leave();
    });
  }
  for (std::thread& member : members) member.join();
  met.log = ::testing::internal::GetCapturedStdout();
  return met;
}

std::vector<OverheardMessage> Listen() {
  std::vector<OverheardMessage> overheard;
  const Met met = MeetThrough(OnMessages([&](OverheardMessage message) {
    overheard.push_back(message);
    return PassedOn{std::move(message.bytes)};
  }));
  EXPECT_TRUE(met.ok()) << met.ToString();
  return overheard;
}

TEST(TamperedGroupTest, NothingGetsThroughThatNoMemberHasSent) {
  const std::vector<OverheardMessage> overheard = Listen();
  std::vector<Tampering> tamperings = Downgrades(overheard);
  ASSERT_FALSE(tamperings.empty());
  std::ranges::move(Tamperings(overheard, 1), std::back_inserter(tamperings));
  for (const Tampering& tampering : tamperings) {
    const Met met = MeetThrough(tampering.rule, kShort);
    EXPECT_FALSE(met.ok()) << tampering.what;
  }
}

// What the user reads.
TEST(TamperedGroupTest, EachMemberNamesTheOtherOne) {
  const std::vector<OverheardMessage> overheard = Listen();
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    const Met met = MeetThrough(ChangeTheLast(overheard, direction));
    const bool first = direction == Direction::kToServer;
    EXPECT_THAT(met.statuses[first ? 0 : 1].ToString(),
                AllOf(HasSubstr(first ? "worker:1 on host h1" : "worker:0 on host h0"),
                      HasSubstr("is not what the other end sent")));
  }
}

TEST(TamperedGroupTest, WhatWasSaidOnceIsGoodForOneConnectionOnly) {
  const std::string said = SaidToServer(Listen());
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTls);
  ASSERT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  tfos::testing::RawClient again(options[0].members[0].port);
  again.Send(said);
  RunMembers(std::move(options), [](Group& group) { EXPECT_TRUE(Sum(group).ok()); });
  EXPECT_EQ(again.ReadAll().size(), net::Challenge::kBytes + 7) << "no more than an alert of TLS";
}

}  // namespace
}  // namespace tfos::collective
