// How members find each other and become a group, and what keeps strangers out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "collective/group.h"
#include "collective/test_members.h"
#include "net/listen.h"
#include "net/socket.h"
#include "testing/middle_man.h"
#include "testing/send_all.h"

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tfos::testing::MiddleMan;

TEST(GroupJoinTest, WhoDoesNotComeIsNamed) {
  std::vector<GroupOptions> options = MakeMembers(3);
  options[0].connect_timeout = std::chrono::milliseconds(300);
  const auto group = Group::Join(std::move(options[0]));
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(group.status().ToString(),
              AllOf(HasSubstr("worker:1 on host h1"), HasSubstr("worker:2 on host h2")));
}

TEST(GroupJoinTest, TheLogSaysWhoIsWaitedFor) {
  for (const std::uint32_t rank : {0u, 1u}) {
    std::vector<GroupOptions> options = MakeMembers(3);
    options[rank].stall_after = std::chrono::milliseconds(50);
    options[rank].connect_timeout = std::chrono::seconds(1);
    ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
    const auto group = Group::Join(std::move(options[rank]));
    const std::string log = ::testing::internal::GetCapturedStdout();
    EXPECT_FALSE(group.ok());
    EXPECT_THAT(log,
                HasSubstr(rank == 0 ? " s for worker:1 on host h1, worker:2 on host h2 to join"
                                    : " s for worker:0 on host h0 to join the group: connect"));
  }
}

/// What both members say when the second one does not belong to the first one's group. Nobody else
/// is to come then.
struct Refusal {
  Status first;
  Status second;
  std::string log;
};
Refusal Refuse(std::vector<GroupOptions> options, ErrorKind kind = ErrorKind::kBadInput) {
  Refusal refusal;
  std::atomic<bool> other_has_ended = false;
  options[0].check = [&] {
    return other_has_ended ? Status(ErrorKind::kInterrupted, "alone") : Status();
  };
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  std::thread other([&] {
    refusal.second = Group::Join(std::move(options[1])).status();
    other_has_ended = true;
  });
  refusal.first = Group::Join(std::move(options[0])).status();
  other.join();
  refusal.log = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(refusal.first.kind(), ErrorKind::kInterrupted);
  EXPECT_EQ(refusal.second.kind(), kind) << refusal.second.ToString();
  return refusal;
}

class JoinOverTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Channels, JoinOverTest,
                         ::testing::Values(Transport::kTcp, Transport::kTls),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(JoinOverTest, WithoutTheKeyNobodyJoins) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  auto other = Secret::Generate();
  ASSERT_TRUE(other.ok());
  options[1].key = *other;
  const Refusal refusal = Refuse(std::move(options));
  EXPECT_THAT(refusal.log, AllOf(HasSubstr("the port of tensors of worker:0 on host h0"),
                                 HasSubstr("does not know the cluster's key")));
}

TEST_P(JoinOverTest, AMemberOfAnEarlierGenerationIsToldThatItIsOver) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  options[0].generation = 1;
  const Refusal refusal = Refuse(std::move(options), ErrorKind::kReconnect);
  EXPECT_THAT(refusal.second.ToString(),
              AllOf(HasSubstr("connect to worker:0 on host h0"),
                    HasSubstr("it has gone on to a later generation, without this one")));
  EXPECT_THAT(refusal.log, HasSubstr("member 1 is of generation 0 of the group"));
}

TEST_P(JoinOverTest, AMemberOfALaterGenerationTriesOnUntilTheOtherHasComeToIt) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  options[1].generation = 1;
  options[1].connect_timeout = std::chrono::milliseconds(500);
  const Refusal refusal = Refuse(std::move(options), ErrorKind::kRetryLater);
  EXPECT_THAT(refusal.second.ToString(), HasSubstr("connect to worker:0 on host h0"));
  EXPECT_THAT(refusal.log, HasSubstr("member 1 is of generation 1 of the group"));
}

/// As somebody in the middle would lead it there.
TEST_P(JoinOverTest, WhoIsLedToAnotherMembersPortIsRefusedAndNamed) {
  std::vector<GroupOptions> options = MakeMembers(3, GetParam());
  options[2].members[1].port = options[0].members[0].port;
  options.erase(options.begin() + 1);
  const Refusal refusal = Refuse(std::move(options));
  EXPECT_THAT(refusal.second.ToString(), HasSubstr("connect to worker:1 on host h1"));
  EXPECT_THAT(refusal.log,
              HasSubstr("member 2 connected to what it took for member 1, and this is 0"));
}

UniqueFd ConnectOnceItListens(std::uint16_t port, const Wait& wait) {
  while (!wait.deadline.passed()) {
    if (auto socket = net::ConnectTcp("127.0.0.1", port, wait); socket.ok()) {
      return std::move(socket).value();
    }
  }
  return {};
}

TEST(GroupJoinTest, ABitThatSomebodyInTheMiddleChangesEndsTheGroup) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTls);
  ASSERT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  // Behind the handshake and what members say when they meet.
  constexpr std::uint64_t kPlace = 100'000;
  const MiddleMan middle(options[0].members[0].port,
                         [](MiddleMan::Direction direction, std::uint64_t at, std::string& bytes) {
                           if (direction == MiddleMan::Direction::kToServer && kPlace >= at &&
                               kPlace - at < bytes.size()) {
                             bytes[kPlace - at] ^= 1;
                           }
                           return true;
                         });
  options[1].members[0].port = middle.port();
  RunMembers(std::move(options), [](Group& group) {
    std::vector<float> values(100'000, 1);
    const Status summed =
        group.AllReduce(DType::kFloat32, std::as_writable_bytes(std::span(values)), "sum");
    ASSERT_FALSE(summed.ok());
    EXPECT_THAT(summed.ToString(), HasSubstr(group.rank() == 0 ? "worker:1" : "worker:0"));
    if (group.rank() == 0) {
      EXPECT_THAT(summed.ToString(), HasSubstr("TLS"));
    }
  });
}

/// Strangers that say nothing keep nobody from coming, however many there are.
TEST_P(JoinOverTest, SilentStrangersDelayNobody) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  ASSERT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    auto stranger = net::ConnectTcp("127.0.0.1", options[0].members[0].port, {});
    ASSERT_TRUE(stranger.ok()) << stranger.status().ToString();
    silent.push_back(std::move(stranger).value());
  }
  RunMembers(std::move(options), [&](Group& group) {
    EXPECT_TRUE(group.Barrier("here").ok());
    if (group.rank() != 0) return;
    // They are disconnected once all members have come: none was given up before.
    for (const UniqueFd& stranger : silent) {
      std::byte none{};
      EXPECT_FALSE(tfos::testing::ReceiveAll(stranger.get(), std::span(&none, 1), {}).ok());
    }
  });
}

// A member that gets no processor for seconds is given up by the one that it connects to.
TEST(GroupJoinTest, AConnectionThatIsClosedDuringTheHandshakeIsTriedAgain) {
  std::vector<GroupOptions> options = MakeMembers(2);
  const UniqueFd listener(::dup(options[0].listener.get()));
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::thread late([&] {
    const auto joined = Group::Join(std::move(options[1]));
    EXPECT_TRUE(joined.ok()) << joined.status().ToString();
  });
  for (int closed = 0; closed < 2; ++closed) {
    pollfd ready{.fd = listener.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, -1), 1);
    const UniqueFd given_up(::accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(given_up.valid());
  }
  const auto group = Group::Join(std::move(options[0]));
  EXPECT_TRUE(group.ok()) << group.status().ToString();
  late.join();
}

TEST(GroupJoinTest, WhoEncryptsLetsNobodyInWhoDoesNot) {
  for (const std::uint32_t encrypts : {0u, 1u}) {
    std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
    options[encrypts].encryption = net::Encryption::kAlways;
    options[1 - encrypts].encryption = net::Encryption::kNever;
    if (encrypts == 1) {
      // It may think otherwise of an address; what is stronger is taken.
      RunMembers(std::move(options), [](Group& group) {
        EXPECT_EQ(group.transport(), "tcp with TLS");
        EXPECT_TRUE(group.Barrier("here").ok());
      });
      continue;
    }
    const Refusal refusal = Refuse(std::move(options));
    EXPECT_THAT(refusal.second.ToString(), HasSubstr("spark.tfos.encrypt"));
    EXPECT_THAT(refusal.log, HasSubstr("wants plain TCP, and this one TLS"));
  }
}

TEST(GroupJoinTest, EncryptionOfAllAndUcxExcludeEachOther) {
  std::vector<GroupOptions> options = MakeMembers(1);
  options[0].encryption = net::Encryption::kAlways;
  options[0].rdma = Rdma::kPreferred;
  EXPECT_EQ(Group::Join(std::move(options[0])).status().kind(), ErrorKind::kBadInput);
}

TEST(GroupJoinTest, WithoutUcxOnBothSidesTensorsGoOverTcp) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
  options[0].rdma = Rdma::kPreferred;
  RunMembers(std::move(options), [](Group& group) {
    EXPECT_EQ(group.transport(), "tcp");
    EXPECT_TRUE(group.Barrier("here").ok());
  });
}

TEST(GroupJoinTest, WhoInsistsOnUcxNamesThoseWithoutIt) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
  options[0].rdma = Rdma::kRequired;
  std::thread other([&] { EXPECT_FALSE(Group::Join(std::move(options[1])).ok()); });
  const auto group = Group::Join(std::move(options[0]));
  EXPECT_EQ(group.status().kind(), ErrorKind::kUnsupported);
#ifdef TFOS_HAS_UCX
  EXPECT_THAT(group.status().ToString(), HasSubstr("worker:1 on host h1"));
#endif
  other.join();
}

TEST(GroupJoinTest, GarbageOnThePortHarmsNobody) {
  std::vector<GroupOptions> options = MakeMembers(2);
  const std::uint16_t port = options[0].members[0].port;
  std::thread first([&] {
    const auto group = Group::Join(std::move(options[0]));
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    EXPECT_TRUE((*group)->Barrier("here").ok());
  });
  const Wait wait{.deadline = Deadline::After(std::chrono::seconds(30))};
  for (int stranger = 0; stranger < 5; ++stranger) {
    const UniqueFd socket = ConnectOnceItListens(port, wait);
    ASSERT_TRUE(socket.valid());
    const std::string garbage(200, static_cast<char>('a' + stranger));
    EXPECT_TRUE(net::Send(socket.get(), std::as_bytes(std::span(garbage)), {}).ok());
  }
  const auto second = Group::Join(std::move(options[1]));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE((*second)->Barrier("here").ok());
  first.join();
}

}  // namespace
}  // namespace tfos::collective
