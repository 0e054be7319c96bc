#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "collective/fused.h"
#include "collective/group.h"
#include "collective/test_members.h"

namespace tfos::collective {
namespace {

/// Gathers and forms generations as a coordinator does.
class TestCoordinator {
 public:
  explicit TestCoordinator(const std::vector<GroupOptions>& options)
      : members_(options.front().members) {
    for (std::uint32_t rank = 0; rank < options.size(); ++rank) alive_.insert(rank);
  }

  std::shared_ptr<Membership> MembershipOf(std::uint32_t rank) {
    return std::make_shared<Of>(*this, rank);
  }

  void Lose(std::uint32_t rank) {
    const MutexLock lock(mutex_);
    alive_.erase(rank);
    ready_.erase(rank);
    Open();
    Complete();
  }

  std::uint32_t generation() {
    const MutexLock lock(mutex_);
    return generation_;
  }

 private:
  class Of final : public Membership {
   public:
    Of(TestCoordinator& coordinator, std::uint32_t rank) : all_(coordinator), rank_(rank) {}

    Status Check(std::uint32_t generation) const override {
      const MutexLock lock(all_.mutex_);
      if (all_.generation_ <= generation) return {};
      return {ErrorKind::kReconnect, fmt::format("generation {} has begun", all_.generation_)};
    }

    Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) override {
      const MutexLock lock(all_.mutex_);
      all_.Take(rank_, ready);
      std::uint32_t wanted = ready.generation;
      while (true) {
        if (all_.formed_.generation >= wanted &&
            std::ranges::count(all_.formed_.ranks, rank_) > 0) {
          return all_.formed_;
        }
        if (all_.gathering_ && all_.generation_ > wanted) {
          wanted = all_.generation_;
          all_.Take(rank_, {.generation = wanted, .committed = ready.committed, .reason = {}});
          continue;
        }
        TFOS_RETURN_IF_ERROR(all_.changed_.WaitRound(all_.mutex_, {.check = check}, "no group"));
      }
    }

    Status Leave(const Ready& ready) override {
      const MutexLock lock(all_.mutex_);
      all_.alive_.erase(rank_);
      all_.Take(rank_, ready);
      return {};
    }

   private:
    TestCoordinator& all_;
    const std::uint32_t rank_;
  };

  void Open() TFOS_REQUIRES(mutex_) {
    if (gathering_) return;
    gathering_ = true;
    ++generation_;
    ready_.clear();
    changed_.NotifyAll();
  }

  void Take(std::uint32_t rank, const Membership::Ready& ready) TFOS_REQUIRES(mutex_) {
    committed_ = std::max(committed_, ready.committed);
    if (!gathering_ && ready.generation == generation_ + 1) Open();
    if (gathering_ && ready.generation == generation_ && alive_.contains(rank)) ready_.insert(rank);
    Complete();
  }

  void Complete() TFOS_REQUIRES(mutex_) {
    if (!gathering_ || ready_ != alive_ || alive_.empty()) return;
    gathering_ = false;
    formed_ = {.generation = generation_, .committed = committed_, .ranks = {}, .members = {}};
    for (const std::uint32_t rank : alive_) {
      formed_.ranks.push_back(rank);
      formed_.members.push_back(members_[rank]);
    }
    changed_.NotifyAll();
  }

  const std::vector<Member> members_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::uint32_t> alive_ TFOS_GUARDED_BY(mutex_);
  std::set<std::uint32_t> ready_ TFOS_GUARDED_BY(mutex_);
  std::uint32_t generation_ TFOS_GUARDED_BY(mutex_) = 0;
  bool gathering_ TFOS_GUARDED_BY(mutex_) = false;
  std::uint64_t committed_ TFOS_GUARDED_BY(mutex_) = 0;
  Membership::Formed formed_ TFOS_GUARDED_BY(mutex_);
};

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
        const Status status = fused.AllReduce(DType::kInt32, {}, std::span(&exchanged, 1), "bits");
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

class ElasticGroupTest : public ::testing::TestWithParam<std::tuple<Transport, std::size_t>> {};

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
