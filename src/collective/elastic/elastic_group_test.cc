#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/time/deadline.h"
#include "collective/elastic/test_coordinator.h"
#include "collective/fused.h"
#include "collective/group.h"
#include "collective/membership.h"
#include "collective/test_members.h"

namespace tfos::collective {
namespace {

constexpr int kOperations = 40;

/// When a member ends, and how: it has begun so many operations.
struct End {
  int after = kOperations;
  bool in_the_middle = false;
};

/// What each member has got of each operation: a bit for each member that is part of the sum.
using Sums = std::vector<std::vector<std::uint32_t>>;

/// Runs members that sum up their bits, until they end. Checks that each sum is one of whole
/// members.
Sums SumUpUntil(Transport transport, std::size_t elements, const std::vector<End>& ends) {
  const auto count = static_cast<std::uint32_t>(ends.size());
  std::vector<GroupOptions> options = MakeMembers(count, transport);
  TestCoordinator coordinator(options);
  Sums sums(count);
  std::vector<std::thread> threads;
  std::latch all_ended(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    options[rank].membership = coordinator.MembershipOf(rank);
    threads.emplace_back([&, rank] {
      auto joined = Group::Join(std::move(options[rank]));
      ASSERT_TRUE(joined.ok()) << joined.status().ToString();
      std::unique_ptr<Group> group = std::move(joined).value();
      EXPECT_EQ(group->rank(), rank);
      Fused fused(*group);
      const std::vector<std::int32_t> own(elements, 1 << rank);
      for (int number = 0; number < kOperations; ++number) {
        const bool last = number == ends[rank].after;
        if (last && !ends[rank].in_the_middle) break;
        std::thread killer;
        if (last) {
          killer = std::thread([&] { group->Close("it is killed"); });
        }
        std::vector<std::int32_t> sum(elements);
        const Exchanged exchanged{.from = std::as_bytes(std::span(own)),
                                  .to = std::as_writable_bytes(std::span(sum))};
        const Status status =
            fused.AllReduce(DType::kInt32, {}, std::span(&exchanged, 1), "bits").status();
        if (killer.joinable()) killer.join();
        if (last) break;
        ASSERT_TRUE(status.ok()) << rank << " in " << number << ": " << status.ToString();
        ASSERT_TRUE(std::ranges::all_of(sum, [&](std::int32_t one) { return one == sum[0]; }));
        sums[rank].push_back(static_cast<std::uint32_t>(sum[0]));
      }
      if (ends[rank].after < kOperations) {
        group.reset();
        coordinator.Lose(rank);
      } else {
        const Status left = group->Leave();
        EXPECT_TRUE(left.ok()) << left.ToString();
      }
      all_ended.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sums;
}

/// Members that were not lost have the same sums, which they are part of, and lose members only.
void ExpectTheSame(const Sums& sums, const std::vector<End>& ends) {
  const std::vector<std::uint32_t>* first = nullptr;
  for (std::uint32_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].after < kOperations) continue;
    ASSERT_EQ(sums[rank].size(), kOperations);
    for (const std::uint32_t sum : sums[rank]) EXPECT_NE(sum & (1U << rank), 0U);
    if (first == nullptr) first = &sums[rank];
    EXPECT_EQ(sums[rank], *first);
  }
  ASSERT_NE(first, nullptr);
  for (std::size_t i = 1; i < first->size(); ++i) EXPECT_EQ((*first)[i] & ~(*first)[i - 1], 0U);
}

/// A member of a group of all that is late for what they agree on after an operation.
class LateMember final : public Membership {
 public:
  explicit LateMember(std::function<void()> wait) : wait_(std::move(wait)) {}
  Status Check(std::uint32_t) const override { return {}; }
  Result<Formed> AwaitNext(const Ready&, const InterruptCheck&) override {
    return Status(ErrorKind::kReconnect, "there is no next generation");
  }
  bool WantsToMeet() const override {
    wait_();
    return false;
  }
  Status Leave(const Ready&) override { return {}; }

 private:
  const std::function<void()> wait_;
};

// Covers: node frozen / training
TEST(ElasticWaitTest, AWaitForWhatTheMembersAgreeOnCountsWhileItGoesOn) {
  constexpr std::chrono::milliseconds kLong(250);
  std::latch seen(1);
  std::vector<GroupOptions> options = MakeMembers(2);
  options[0].membership = std::make_shared<LateMember>([] {});
  options[1].membership = std::make_shared<LateMember>([&] { seen.wait(); });
  RunMembers(std::move(options), [&](Group& group) {
    std::thread looker;
    if (group.rank() == 0) {
      looker = std::thread([&] {
        const Deadline patience = Deadline::After(std::chrono::seconds(20));
        while (group.waited() < kLong && !patience.passed()) std::this_thread::yield();
        EXPECT_GE(group.waited(), kLong);
        EXPECT_GE(group.busy(), group.waited());
        seen.count_down();
      });
    }
    const Status done = group.Barrier("all here");
    EXPECT_TRUE(done.ok()) << done.ToString();
    if (looker.joinable()) looker.join();
    EXPECT_LE(group.waited(), group.busy());
  });
}

class ElasticGroupTest : public ::testing::TestWithParam<std::tuple<Transport, std::size_t>> {};

// Covers: node killed / training
TEST_P(ElasticGroupTest, AMemberThatIsGoneIsDoneWithout) {
  const auto [transport, elements] = GetParam();
  const std::vector<End> ends = {{}, {.after = 7}, {}};
  const Sums sums = SumUpUntil(transport, elements, ends);
  ExpectTheSame(sums, ends);
  EXPECT_EQ(sums[0].front(), 7U);
  EXPECT_EQ(sums[0][6], 7U) << "what it has taken part in";
  EXPECT_EQ(sums[0][7], 5U) << "what it has not begun";
}

TEST_P(ElasticGroupTest, TheFirstMemberMayGo) {
  const auto [transport, elements] = GetParam();
  const std::vector<End> ends = {{.after = 3}, {}, {}};
  const Sums sums = SumUpUntil(transport, elements, ends);
  ExpectTheSame(sums, ends);
  EXPECT_EQ(sums[1].back(), 6U);
}

TEST_P(ElasticGroupTest, TheLastMemberGoesOnAlone) {
  const auto [transport, elements] = GetParam();
  const std::vector<End> ends = {{.after = 5}, {}, {.after = 9}, {.after = 9}};
  const Sums sums = SumUpUntil(transport, elements, ends);
  ExpectTheSame(sums, ends);
  EXPECT_EQ(sums[1].back(), 2U);
}

TEST_P(ElasticGroupTest, AMemberThatGoesInTheMiddleOfAnOperationLeavesNoDifference) {
  const auto [transport, elements] = GetParam();
  for (int after = 0; after < 12; after += 3) {
    const std::vector<End> ends = {{}, {}, {.after = after, .in_the_middle = true}, {}};
    ExpectTheSame(SumUpUntil(transport, elements, ends), ends);
  }
}

TEST_P(ElasticGroupTest, SeveralMayGoAtOnce) {
  const auto [transport, elements] = GetParam();
  const std::vector<End> ends = {{},
                                 {.after = 6, .in_the_middle = true},
                                 {.after = 6, .in_the_middle = true},
                                 {},
                                 {.after = 7}};
  ExpectTheSame(SumUpUntil(transport, elements, ends), ends);
}

INSTANTIATE_TEST_SUITE_P(AllTransports, ElasticGroupTest,
                         ::testing::Combine(::testing::ValuesIn(Transports()),
                                            ::testing::Values(std::size_t{3},
                                                              std::size_t{300'000})),
                         [](const auto& made) {
                           return fmt::format("{}{}", NameOf(std::get<0>(made.param)),
                                              std::get<1>(made.param));
                         });

/// Two members, of which the second is gone, and what the first says to `program`.
void WithOneGone(const std::function<void(Group&)>& program) {
  std::vector<GroupOptions> options = MakeMembers(2);
  TestCoordinator coordinator(options);
  for (std::uint32_t rank : {0U, 1U}) options[rank].membership = coordinator.MembershipOf(rank);
  std::thread other([&] {
    auto joined = Group::Join(std::move(options[1]));
    ASSERT_TRUE(joined.ok());
    EXPECT_TRUE((*joined)->Barrier("both").ok());
    joined->reset();
    coordinator.Lose(1);
  });
  const auto group = Group::Join(std::move(options[0]));
  ASSERT_TRUE(group.ok());
  EXPECT_EQ((*group)->size(), 2U);
  EXPECT_TRUE((*group)->Barrier("both").ok());
  other.join();
  program(**group);
}

TEST(ElasticCallTest, ABroadcastFromALostMemberFailsAndEndsNothing) {
  WithOneGone([](Group& group) {
    std::vector<std::byte> data(8);
    const Status sent = group.Broadcast(1, data, "weights");
    ASSERT_FALSE(sent.ok());
    EXPECT_EQ(sent.kind(), ErrorKind::kSuperseded);
    EXPECT_THAT(sent.message(), ::testing::HasSubstr("worker:1 on host h1"));
    EXPECT_TRUE(group.Broadcast(0, data, "weights").ok());
    EXPECT_EQ(group.size(), 1U);
    EXPECT_EQ(group.transport(), "nothing, being alone");
  });
}

TEST(ElasticCallTest, WhatIsInPlaceIsRepeatedFromItsFirstValues) {
  WithOneGone([](Group& group) {
    std::vector<float> data(100'000, 3);
    EXPECT_TRUE(
        group.AllReduce(DType::kFloat32, std::as_writable_bytes(std::span(data)), "sum").ok());
    EXPECT_EQ(data.front(), 3);
    EXPECT_EQ(data.back(), 3);
  });
}

TEST(ElasticCallTest, AGatherIsRepeatedWithItsSizes) {
  WithOneGone([](Group& group) {
    std::vector<std::size_t> sizes;
    const Status gathered = group.Transact([&](Group::Transaction& all) -> Status {
      TFOS_ASSIGN_OR_RETURN(sizes, all.GatherSizes(8, "rows"));
      std::vector<std::byte> rows(8 * sizes.size());
      return all.AllGather(sizes, rows, "rows");
    });
    EXPECT_TRUE(gathered.ok()) << gathered.ToString();
    EXPECT_THAT(sizes, ::testing::ElementsAre(8));
  });
}

TEST(ElasticCallTest, AMemberThatWaitsForSomethingElseFollowsTheOthers) {
  std::vector<GroupOptions> options = MakeMembers(3);
  TestCoordinator coordinator(options);
  for (std::uint32_t rank : {0U, 1U, 2U}) options[rank].membership = coordinator.MembershipOf(rank);
  std::thread lost([&] {
    auto joined = Group::Join(std::move(options[1]));
    ASSERT_TRUE(joined.ok());
    EXPECT_TRUE((*joined)->Barrier("all").ok());
    joined->reset();
    coordinator.Lose(1);
  });
  std::atomic<bool> is_through = false;
  std::thread other([&] {
    const auto joined = Group::Join(std::move(options[2]));
    ASSERT_TRUE(joined.ok());
    EXPECT_TRUE((*joined)->Barrier("all").ok());
    // Connected with the first one again, which begins nothing.
    while ((*joined)->size() == 3) (*joined)->FollowOthers();
    is_through = true;
  });
  const auto group = Group::Join(std::move(options[0]));
  ASSERT_TRUE(group.ok());
  EXPECT_TRUE((*group)->Barrier("all").ok());
  const Deadline deadline = Deadline::After(std::chrono::seconds(60));
  while (!is_through && !deadline.passed()) (*group)->FollowOthers();
  EXPECT_TRUE(is_through);
  lost.join();
  other.join();
  EXPECT_EQ((*group)->size(), 2U);
}

/// Calls back before a member says that it is ready, and before it goes on in a generation.
class Watched final : public Membership {
 public:
  Watched(std::shared_ptr<Membership> membership, std::function<void(const Ready&)> says,
          std::function<void(const Formed&)> hears)
      : membership_(std::move(membership)), says_(std::move(says)), hears_(std::move(hears)) {}

  Status Check(std::uint32_t generation) const override { return membership_->Check(generation); }
  Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) override {
    says_(ready);
    TFOS_ASSIGN_OR_RETURN(Formed formed, membership_->AwaitNext(ready, check));
    hears_(formed);
    return formed;
  }
  bool WantsToMeet() const override { return membership_->WantsToMeet(); }
  Status Leave(const Ready& ready) override { return membership_->Leave(ready); }

 private:
  const std::shared_ptr<Membership> membership_;
  const std::function<void(const Ready&)> says_;
  const std::function<void(const Formed&)> hears_;
};

TEST(ElasticCallTest, WhoDoesNotComeToALaterGenerationIsNamedInTime) {
  std::vector<GroupOptions> options = MakeMembers(2);
  TestCoordinator coordinator(options);
  std::latch named(1);
  std::string reason;
  options[0].regroup_timeout = std::chrono::milliseconds(100);
  options[0].membership = std::make_shared<Watched>(
      coordinator.MembershipOf(0),
      [&](const Membership::Ready& ready) {
        if (ready.generation != 2) return;
        reason = ready.reason;
        named.count_down();
      },
      [](const Membership::Formed&) {});
  options[1].membership = std::make_shared<Watched>(
      coordinator.MembershipOf(1), [](const Membership::Ready&) {},
      [&](const Membership::Formed& formed) {
        if (formed.generation == 1) named.wait();  // It does not connect.
      });
  RunMembers(std::move(options), [&](Group& group) {
    coordinator.Regroup();
    EXPECT_TRUE(group.Barrier("both").ok());
    EXPECT_EQ(group.size(), 2U);
  });
  EXPECT_THAT(reason, ::testing::HasSubstr("worker:1 on host h1 did not come for 0.1 s"));
}

TEST(ElasticCallTest, AMemberThatIsLostBeforeItJoinsIsNotWaitedFor) {
  std::vector<GroupOptions> options = MakeMembers(2);
  TestCoordinator coordinator(options);
  options[0].membership = coordinator.MembershipOf(0);
  std::thread other([&] { coordinator.Lose(1); });
  const auto group = Group::Join(std::move(options[0]));
  other.join();
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  EXPECT_EQ((*group)->size(), 1U);
}

}  // namespace
}  // namespace tfos::collective
