#ifndef TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_
#define TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/thread/mutex.h"
#include "collective/membership.h"
#include "collective/mesh/member.h"
#include "control/coordinator/roster/offices/generation_office.h"
#include "control/messages/parts/generation_messages.h"

namespace tfos::collective {

/// The coordinator's own GenerationOffice (docs/formats/generations.md), which members of a test
/// ask directly. A member's rank is its node id.
///
/// Owner and lifetime: of a test; outlives what has its memberships. Threads: any.
class TestCoordinator {
 public:
  /// The `first` members of `options` begin together; the others join. At least `least` must be
  /// there before those that meet go on.
  explicit TestCoordinator(const std::vector<GroupOptions>& options,
                           std::optional<std::uint32_t> first = {}, std::size_t least = 1)
      : members_(options.front().members), office_(static_cast<int>(least)) {
    control::GenerationOffice::Nodes begin;
    for (int rank = 0; rank < static_cast<int>(options.size()); ++rank) {
      const Member& member = members_[static_cast<std::size_t>(rank)];
      nodes_[rank] = {
          .rank = rank, .name = member.name, .address = member.address, .port = member.port};
      if (rank < static_cast<int>(first.value_or(options.size()))) begin[rank] = nodes_[rank];
    }
    office_.Begin(begin);
  }

  std::shared_ptr<Membership> MembershipOf(std::uint32_t rank) {
    return std::make_shared<Of>(*this, static_cast<int>(rank));
  }

  void Lose(std::uint32_t rank) {
    const MutexLock lock(mutex_);
    LoseNode(static_cast<int>(rank));
  }

  /// Opens the next generation, though none of the members is lost.
  void Regroup() {
    const MutexLock lock(mutex_);
    // One is lost that nobody has ever met.
    constexpr int kNobody = -1;
    office_.Begin({{kNobody, control::GroupMember{}}});
    LoseNode(kNobody);
  }

  /// Waits until this many newcomers have been ready to come in, so far.
  void AwaitNewcomers(std::size_t count) {
    const MutexLock lock(mutex_);
    while (came_ < count) changed_.Wait(mutex_);
  }

  std::uint32_t generation() {
    const MutexLock lock(mutex_);
    return static_cast<std::uint32_t>(office_.generation());
  }
  /// Those that are left can't go on: the office has ended the cluster.
  bool failed() {
    const MutexLock lock(mutex_);
    return failure_.has_value();
  }

 private:
  class Of final : public Membership {
   public:
    Of(TestCoordinator& coordinator, int rank) : all_(coordinator), rank_(rank) {}

    Status Check(std::uint32_t generation) const override {
      const MutexLock lock(all_.mutex_);
      const int now = all_.office_.generation();
      if (now <= static_cast<int>(generation)) return {};
      return {ErrorKind::kReconnect, fmt::format("generation {} has begun", now)};
    }

    Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) override {
      const MutexLock lock(all_.mutex_);
      all_.Take(rank_, MessageOf(ready, /*leaves=*/false));
      Ready again = ready;
      while (true) {
        // Not by a reference: the analysis of locks does not follow it.
        if (all_.formed_.generation >= again.generation &&
            std::ranges::count(all_.formed_.ranks, static_cast<std::uint32_t>(rank_)) > 0) {
          return all_.formed_;
        }
        if (all_.failure_) return Status(ErrorKind::kReconnect, *all_.failure_);
        const auto now = static_cast<std::uint32_t>(all_.office_.generation());
        if (all_.office_.gathering() && now > again.generation && all_.office_.IsMember(rank_)) {
          again.generation = now;
          all_.Take(rank_, MessageOf(again, /*leaves=*/false));
          continue;
        }
        TFOS_RETURN_IF_ERROR(all_.changed_.WaitRound(all_.mutex_, {.check = check}, "no group"));
      }
    }

    bool WantsToMeet() const override {
      const MutexLock lock(all_.mutex_);
      return all_.office_.anyone_waits() || all_.office_.is_below();
    }

    Status Leave(const Ready& ready) override {
      const MutexLock lock(all_.mutex_);
      all_.Take(rank_, MessageOf(ready, /*leaves=*/true));
      return {};
    }

   private:
    static control::GroupReady MessageOf(const Ready& ready, bool leaves) {
      return {.generation = static_cast<int>(ready.generation),
              .committed = static_cast<std::int64_t>(ready.committed),
              .leaves = leaves,
              .reason = ready.reason,
              .admits = ready.admits,
              .lacks = ready.lacks};
    }

    TestCoordinator& all_;
    const int rank_;
  };

  void Take(int rank, const control::GroupReady& ready) TFOS_REQUIRES(mutex_) {
    if (!office_.IsMember(rank) && !office_.Waits(rank)) ++came_;
    Follow(office_.Ready(rank, ready, nodes_));
  }

  void LoseNode(int rank) TFOS_REQUIRES(mutex_) {
    nodes_.erase(rank);
    Follow(office_.Lost(rank, "it is lost", nodes_));
  }

  /// Does what the office has found out.
  void Follow(const control::GenerationOffice::Outcome& outcome) TFOS_REQUIRES(mutex_) {
    if (outcome.failure) failure_ = outcome.failure;
    if (outcome.formed) {
      formed_ = {.generation = static_cast<std::uint32_t>(outcome.formed->generation),
                 .committed = static_cast<std::uint64_t>(outcome.formed->committed),
                 .ranks = {},
                 .members = {},
                 .admits = outcome.formed->admits};
      for (const control::GroupMember& member : outcome.formed->members) {
        formed_.ranks.push_back(static_cast<std::uint32_t>(member.rank));
        formed_.members.push_back(members_[static_cast<std::size_t>(member.rank)]);
      }
    }
    for (const int rank : outcome.unreachable) LoseNode(rank);
    changed_.NotifyAll();
  }

  const std::vector<Member> members_;
  Mutex mutex_;
  CondVar changed_;
  control::GenerationOffice office_ TFOS_GUARDED_BY(mutex_);
  /// That live, whether they have come or not.
  control::GenerationOffice::Nodes nodes_ TFOS_GUARDED_BY(mutex_);
  std::size_t came_ TFOS_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> failure_ TFOS_GUARDED_BY(mutex_);
  Membership::Formed formed_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_
