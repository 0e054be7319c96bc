// How members of an elastic group let newcomers in, and give them what they know.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/elastic/test_coordinator.h"
#include "collective/group.h"
#include "collective/test_members.h"

namespace tfos::collective {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kSteps = 30;
/// From this step on the newcomers of a test are waited for.
constexpr std::int32_t kComesIn = 5;

/// Where a member or newcomer dies.
enum class Death {
  kNever,
  kWaiting,           ///< As a newcomer, before it is let in.
  kBeforeItConnects,  ///< It was let in.
  kConnected,
  kBeforeTheWeights,  ///< It knows who has them.
  kBeforeItSettles,   ///< It has them.
  kSettled,
  kInItsStep,
};

/// What it is to do, and what becomes of it.
struct Trainer {
  Death death = Death::kNever;
  std::int32_t dies_in = 0;              ///< For kInItsStep.
  std::int32_t waits_for_newcomers = 0;  ///< In kComesIn.
  std::function<void()> begins = {};

  std::int32_t begun_with = -1;  ///< The step.
  std::int32_t steps = 0;        ///< Of the model, as weights and optimizer know them.
  std::vector<std::int32_t> weights = {};
  std::vector<std::int32_t> sums = {};  ///< Of each step: a bit for each that is part of it.
  Status ended = {};
};

/// Dies as soon as it hears that it was let in.
class Dying final : public Membership {
 public:
  Dying(TestCoordinator& coordinator, std::uint32_t rank)
      : coordinator_(coordinator), rank_(rank), all_(coordinator.MembershipOf(rank)) {}
  Status Check(std::uint32_t generation) const override { return all_->Check(generation); }
  Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) override {
    TFOS_RETURN_IF_ERROR(all_->AwaitNext(ready, check).status());
    coordinator_.Lose(rank_);
    return Status(ErrorKind::kInterrupted, "it dies");
  }
  bool WantsToMeet() const override { return all_->WantsToMeet(); }
  Status Leave(const Ready& ready) override { return all_->Leave(ready); }

 private:
  TestCoordinator& coordinator_;
  const std::uint32_t rank_;
  const std::shared_ptr<Membership> all_;
};

class NewcomerTest : public ::testing::TestWithParam<Transport> {
 protected:
  /// `first` trainers begin together, the others join.
  void Run(std::uint32_t first, std::vector<Trainer>& trainers, std::size_t least = 1) {
    std::vector<GroupOptions> options =
        MakeMembers(static_cast<std::uint32_t>(trainers.size()), GetParam());
    coordinator_.emplace(options, first, least);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < trainers.size(); ++rank) {
      for (std::uint32_t each = 0; each < first; ++each) options[rank].ranks.push_back(each);
      options[rank].joins = rank >= first;
      options[rank].membership = coordinator_->MembershipOf(rank);
      if (trainers[rank].death == Death::kBeforeItConnects) {
        options[rank].membership = std::make_shared<Dying>(*coordinator_, rank);
      }
      threads.emplace_back([this, &trainers, &options, rank] {
        trainers[rank].ended = Live(trainers[rank], std::move(options[rank]), rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// All that live on have made all steps, and have the same bits.
  static void ExpectTheSame(const std::vector<Trainer>& trainers) {
    const Trainer* first = nullptr;
    for (const Trainer& trainer : trainers) {
      if (trainer.death != Death::kNever) continue;
      EXPECT_TRUE(trainer.ended.ok()) << trainer.ended.ToString();
      if (first == nullptr) first = &trainer;
      EXPECT_EQ(trainer.steps, kSteps);
      EXPECT_EQ(trainer.weights, first->weights);
    }
    ASSERT_NE(first, nullptr);
  }

  std::optional<TestCoordinator> coordinator_;

 private:
  Status Live(Trainer& self, GroupOptions options, std::uint32_t rank) {
    if (self.begins) self.begins();
    const bool joins = options.joins;
    TFOS_ASSIGN_OR_RETURN(auto group, Group::Join(std::move(options)));
    self.weights.assign(10'000, 0);
    Status lived;
    if (joins) {
      std::thread killer;
      if (self.death == Death::kWaiting) {
        killer = std::thread([&] {
          coordinator_->AwaitNewcomers(1);
          group->Close("it is killed");
        });
      }
      EXPECT_EQ(group->Barrier("too early").kind(), ErrorKind::kBadInput);
      lived = group->ComeIn();
      if (killer.joinable()) killer.join();
      if (lived.ok()) lived = Share(*group, self, rank);
      self.begun_with = self.steps;
    }
    if (lived.ok()) lived = Train(*group, self, rank);
    if (self.death != Death::kNever) {
      group.reset();
      coordinator_->Lose(rank);
      return lived;
    }
    group->SetInSteps(false);
    return lived.ok() ? group->Leave() : lived;
  }

  static Status Dies(const Trainer& self, Death where) {
    if (self.death == where) return {ErrorKind::kInterrupted, "it dies"};
    return {};
  }

  Status Train(Group& group, Trainer& self, std::uint32_t rank) {
    group.SetInSteps(true);
    while (self.steps < kSteps) {
      if (self.steps == kComesIn && self.waits_for_newcomers > 0) {
        coordinator_->AwaitNewcomers(static_cast<std::size_t>(self.waits_for_newcomers));
      }
      std::thread killer;
      const bool last = self.death == Death::kInItsStep && self.steps == self.dies_in;
      if (last) killer = std::thread([&] { group.Close("it is killed"); });
      const std::vector<std::int32_t> gradient(self.weights.size(), 1 << rank);
      std::vector<std::int32_t> sum;
      // As Fused does: a transaction begins with what it was first given.
      const Status stepped = group.Transact([&](Group::Transaction& all) {
        sum = gradient;
        return all.AllReduce(DType::kInt32, std::as_writable_bytes(std::span(sum)), "gradients");
      });
      if (killer.joinable()) killer.join();
      if (last) return {ErrorKind::kInterrupted, "it dies"};
      TFOS_RETURN_IF_ERROR(stepped);
      EXPECT_THAT(sum, Each(sum.front()));
      self.sums.push_back(sum.front());
      for (std::size_t i = 0; i < sum.size(); ++i) self.weights[i] += sum[i] * (self.steps + 1);
      ++self.steps;
      TFOS_ASSIGN_OR_RETURN(const bool share, group.MeetAfterStep());
      if (share) TFOS_RETURN_IF_ERROR(Share(group, self, rank));
    }
    return {};
  }

  /// Newcomers get what the first one has that has something.
  static Status Share(Group& group, Trainer& self, std::uint32_t rank) {
    TFOS_RETURN_IF_ERROR(Dies(self, Death::kConnected));
    using Word = std::array<std::uint32_t, 3>;
    while (true) {
      std::vector<Word> words;
      TFOS_RETURN_IF_ERROR(group.Transact([&](Group::Transaction& all) -> Status {
        words.assign(all.size(), {});
        words[all.place()] = {rank, group.has_state() ? 1U : 0U,
                              static_cast<std::uint32_t>(self.steps)};
        return all.AllGather(std::vector<std::size_t>(all.size(), sizeof(Word)),
                             std::as_writable_bytes(std::span(words)), "weights and steps");
      }));
      TFOS_RETURN_IF_ERROR(Dies(self, Death::kBeforeTheWeights));
      const auto root = std::ranges::find_if(words, [](const Word& word) { return word[1] == 1; });
      if (root == words.end()) return {ErrorKind::kBug, "nobody has the weights"};
      std::vector<std::int32_t> weights = self.weights;
      const Status sent =
          group.Broadcast((*root)[0], std::as_writable_bytes(std::span(weights)), "weights");
      if (!sent.ok() && sent.kind() == ErrorKind::kSuperseded) continue;
      TFOS_RETURN_IF_ERROR(sent);
      if (!group.has_state()) {
        self.weights = std::move(weights);
        self.steps = static_cast<std::int32_t>((*root)[2]);
      }
      break;
    }
    TFOS_RETURN_IF_ERROR(Dies(self, Death::kBeforeItSettles));
    TFOS_RETURN_IF_ERROR(group.Settle());
    EXPECT_TRUE(group.has_state());
    return Dies(self, Death::kSettled);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, NewcomerTest,
                         ::testing::Values(Transport::kTcp, Transport::kSharedMemory,
                                           Transport::kTwoHosts),
                         [](const auto& made) { return NameOf(made.param); });

TEST_P(NewcomerTest, ComesInAfterAStepAndHasTheSameWeights) {
  std::vector<Trainer> trainers(3);
  trainers[0].waits_for_newcomers = 1;
  Run(2, trainers);
  ExpectTheSame(trainers);
  EXPECT_GT(trainers[2].begun_with, 0);
  EXPECT_LE(trainers[2].begun_with, kComesIn + 1);
  EXPECT_EQ(trainers[0].sums.front(), 3);
  EXPECT_EQ(trainers[0].sums.back(), 7);
  EXPECT_EQ(trainers[2].sums.size(), static_cast<std::size_t>(kSteps - trainers[2].begun_with));
}

TEST_P(NewcomerTest, TwoComeIn) {
  std::vector<Trainer> trainers(4);
  trainers[0].waits_for_newcomers = 1;  // Of the other one nobody knows when it comes.
  trainers[3].begins = [this] { coordinator_->AwaitNewcomers(1); };
  Run(2, trainers);
  ExpectTheSame({trainers[0], trainers[1], trainers[2]});
  EXPECT_EQ(trainers[2].sums.back() & 7, 7);
}

TEST_P(NewcomerTest, OneMemberAloneLetsTwoIn) {
  std::vector<Trainer> trainers(3);
  trainers[0].waits_for_newcomers = 2;
  Run(1, trainers);
  ExpectTheSame(trainers);
  EXPECT_EQ(trainers[0].sums.front(), 1);
  EXPECT_EQ(trainers[0].sums.back(), 7);
}

TEST_P(NewcomerTest, OneThatDiesWhileItComesInIsDoneWithout) {
  for (const Death death :
       {Death::kWaiting, Death::kBeforeItConnects, Death::kConnected, Death::kBeforeTheWeights,
        Death::kBeforeItSettles, Death::kSettled, Death::kInItsStep}) {
    SCOPED_TRACE(static_cast<int>(death));
    std::vector<Trainer> trainers(3);
    trainers[0].waits_for_newcomers = death == Death::kWaiting ? 0 : 1;
    trainers[2].death = death;
    trainers[2].dies_in = kComesIn + 3;
    Run(2, trainers);
    ExpectTheSame(trainers);
    EXPECT_EQ(trainers[0].sums.back(), 3);
    EXPECT_FALSE(coordinator_->failed());
  }
}

TEST_P(NewcomerTest, AMemberMayBeLostAtTheSameTime) {
  for (const std::uint32_t victim : {0U, 1U}) {
    for (std::int32_t step = kComesIn; step < kComesIn + 3; ++step) {
      SCOPED_TRACE(fmt::format("{} in {}", victim, step));
      std::vector<Trainer> trainers(4);
      trainers[2].waits_for_newcomers = 1;
      trainers[victim].death = Death::kInItsStep;
      trainers[victim].dies_in = step;
      Run(3, trainers);
      ExpectTheSame(trainers);
      EXPECT_EQ(trainers[2].sums.back(), 15 & ~(1 << victim));
    }
  }
}

TEST_P(NewcomerTest, TheOneThatGivesTheWeightsMayBeLostMeanwhile) {
  for (const Death death :
       {Death::kConnected, Death::kBeforeTheWeights, Death::kBeforeItSettles, Death::kSettled}) {
    SCOPED_TRACE(static_cast<int>(death));
    std::vector<Trainer> trainers(3);
    trainers[1].waits_for_newcomers = 1;
    trainers[0].death = death;
    Run(2, trainers);
    ExpectTheSame(trainers);
    EXPECT_EQ(trainers[1].sums.back(), 6);
  }
}

TEST_P(NewcomerTest, ThoseThatAreTooFewWaitForOthersAfterTheirStep) {
  std::vector<Trainer> trainers(3);
  trainers[1].death = Death::kInItsStep;
  trainers[1].dies_in = 3;
  trainers[2].begins = [this] {
    while (coordinator_->generation() < 2) std::this_thread::yield();  // It waits.
  };
  Run(2, trainers, /*least=*/2);
  ExpectTheSame(trainers);
  EXPECT_LE(std::ranges::count(trainers[0].sums, 1), 1) << "of the step that was begun";
  EXPECT_EQ(trainers[0].sums.back(), 5);
}

TEST_P(NewcomerTest, WithoutAnybodyWhoHasTheWeightsItFails) {
  std::vector<Trainer> trainers(2);
  trainers[0].waits_for_newcomers = 1;
  trainers[0].death = Death::kConnected;
  Run(1, trainers);
  EXPECT_TRUE(coordinator_->failed());
  EXPECT_THAT(trainers[1].ended.ToString(), HasSubstr("have not got the weights yet"));
}

}  // namespace
}  // namespace tfos::collective
