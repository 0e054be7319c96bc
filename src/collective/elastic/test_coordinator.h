#ifndef TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_
#define TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/thread/mutex.h"
#include "collective/membership.h"
#include "collective/mesh/member.h"

namespace tfos::collective {

/// Gathers and forms generations as a coordinator does (docs/formats/generations.md).
///
/// Owner and lifetime: of a test; outlives what has its memberships. Threads: any.
class TestCoordinator {
 public:
  /// The `first` members of `options` begin together; the others join. At least `least` must be
  /// there before those that meet go on.
  explicit TestCoordinator(const std::vector<GroupOptions>& options,
                           std::optional<std::uint32_t> first = {}, std::size_t least = 1)
      : members_(options.front().members), least_(least) {
    for (std::uint32_t rank = 0; rank < first.value_or(options.size()); ++rank) alive_.insert(rank);
    there_ = alive_;
  }

  std::shared_ptr<Membership> MembershipOf(std::uint32_t rank) {
    return std::make_shared<Of>(*this, rank);
  }

  void Lose(std::uint32_t rank) {
    const MutexLock lock(mutex_);
    newcomers_.erase(rank);
    there_.erase(rank);
    ready_.erase(rank);
    if (alive_.erase(rank) > 0) Open();
    Complete();
  }

  /// Opens the next generation, though nobody is lost.
  void Regroup() {
    const MutexLock lock(mutex_);
    Open();
  }

  /// Waits until this many newcomers have been ready to come in, so far.
  void AwaitNewcomers(std::size_t count) {
    const MutexLock lock(mutex_);
    while (came_ < count) changed_.Wait(mutex_);
  }

  std::uint32_t generation() {
    const MutexLock lock(mutex_);
    return generation_;
  }
  /// Nobody with state was left.
  bool failed() {
    const MutexLock lock(mutex_);
    return failed_;
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
      Ready again = ready;
      while (true) {
        // Not by a reference: the analysis of locks does not follow it.
        if (all_.formed_.generation >= again.generation &&
            std::ranges::count(all_.formed_.ranks, rank_) > 0) {
          return all_.formed_;
        }
        if (all_.failed_) return Status(ErrorKind::kReconnect, "nobody has the state");
        if (all_.gathering_ && all_.generation_ > again.generation && all_.alive_.contains(rank_)) {
          again.generation = all_.generation_;
          all_.Take(rank_, again);
          continue;
        }
        TFOS_RETURN_IF_ERROR(all_.changed_.WaitRound(all_.mutex_, {.check = check}, "no group"));
      }
    }

    bool WantsToMeet() const override {
      const MutexLock lock(all_.mutex_);
      return !all_.newcomers_.empty() || all_.there_.size() < all_.least_;
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
    if (!there_.contains(rank)) {
      if (newcomers_.insert(rank).second) ++came_;
      changed_.NotifyAll();
      Complete();
      return;
    }
    committed_ = std::max(committed_, ready.committed);
    if (!gathering_ && ready.generation == generation_ + 1) Open();
    if (gathering_ && ready.generation == generation_ && alive_.contains(rank)) {
      ready_[rank] = ready;
    }
    Complete();
  }

  void Complete() TFOS_REQUIRES(mutex_) {
    if (!gathering_ || ready_.size() < alive_.size() || alive_.empty()) return;
    bool admits = true;
    bool any_state = false;
    for (const auto& [rank, ready] : ready_) {
      admits = admits && ready.admits;
      any_state =
          any_state || static_cast<std::uint64_t>(ready.lacks) <= committed_ - ready.committed;
    }
    if (!any_state) {
      failed_ = true;
      changed_.NotifyAll();
      return;
    }
    if (admits) {
      if (there_.size() + newcomers_.size() < least_) return;
      alive_.insert(newcomers_.begin(), newcomers_.end());
      there_.insert(newcomers_.begin(), newcomers_.end());
      newcomers_.clear();
    }
    gathering_ = false;
    formed_ = {.generation = generation_,
               .committed = committed_,
               .ranks = {alive_.begin(), alive_.end()},
               .members = {},
               .admits = admits};
    for (const std::uint32_t rank : alive_) formed_.members.push_back(members_[rank]);
    changed_.NotifyAll();
  }

  const std::vector<Member> members_;
  const std::size_t least_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::uint32_t> alive_ TFOS_GUARDED_BY(mutex_);  ///< Members that may be in a generation.
  std::set<std::uint32_t> there_ TFOS_GUARDED_BY(mutex_);  ///< With those that have left.
  std::set<std::uint32_t> newcomers_ TFOS_GUARDED_BY(mutex_);  ///< That are ready to come in.
  std::size_t came_ TFOS_GUARDED_BY(mutex_) = 0;
  std::map<std::uint32_t, Membership::Ready> ready_ TFOS_GUARDED_BY(mutex_);
  std::uint32_t generation_ TFOS_GUARDED_BY(mutex_) = 0;
  bool gathering_ TFOS_GUARDED_BY(mutex_) = false;
  bool failed_ TFOS_GUARDED_BY(mutex_) = false;
  std::uint64_t committed_ TFOS_GUARDED_BY(mutex_) = 0;
  Membership::Formed formed_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_ELASTIC_TEST_COORDINATOR_H_
