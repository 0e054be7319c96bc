#ifndef TFOS_COLLECTIVE_GROUP_H_
#define TFOS_COLLECTIVE_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "collective/generation.h"
#include "collective/membership.h"
#include "collective/mesh/member.h"
#include "collective/operation/element.h"
#include "collective/operation/timeline.h"
#include "tfos/status.h"

namespace tfos::collective {

/// The nodes that train together, as seen by one of them. All call the same functions in the same
/// order, with tensors of the same type and size; each call returns when this member is done.
/// Members on one host share memory, others are connected by TCP or UCX; with several members on
/// some of several hosts, one of each host speaks for it.
///
/// With GroupOptions::membership the group is elastic: when members are lost, a call ends on all
/// others with the same result, or is repeated among them, and it may take long then
/// (docs/formats/generations.md). Ranks stay as they are.
///
/// Owner and lifetime: of a node's process, from the program's first use to its end. A member that
/// ends without `Leave` ends the group for all, or is lost to an elastic one. Threads: any; calls
/// wait for each other, except `Close`. Errors: the first one ends the group for everybody, and
/// whatever follows fails with it. Reconnect: a member is gone or gave up, with its name. Bad
/// input: members do different things; names both. Superseded, which ends nothing: the root of a
/// broadcast is lost. Sources and formats: docs/formats/tensor-protocol.md.
class Group {
 public:
  class Transaction;
  using Work = std::function<Status(Transaction&)>;

  /// Waits until all members have come. Errors: retry later, naming those who have not.
  static Result<std::unique_ptr<Group>> Join(GroupOptions options);

  std::uint32_t rank() const { return rank_; }
  /// How many members there are now; 0 as long as this one has not come in.
  std::uint32_t size() const { return size_; }
  /// Their ranks, in ascending order.
  std::vector<std::uint32_t> ranks() const;

  // How members of an elastic group let newcomers in (docs/formats/generations.md, "Joining").

  /// Whether this member is in the steps of a loop, each of which it ends with `MeetAfterStep`.
  /// It is not at first. Threads: also while a call is under way.
  void SetInSteps(bool in_steps) { in_steps_ = in_steps; }
  /// If the coordinator wants it, lets newcomers in, or waits until some come where members are too
  /// few. True if all members have: then all members, and the newcomers after `ComeIn`, go on with
  /// the calls that give these the state, and with `Settle`.
  Result<bool> MeetAfterStep();
  /// For a member that joins: returns when the others have let it in. Until then it can do nothing
  /// with them: other calls are bad input, and leave everything as it is.
  Status ComeIn();
  /// For a member that waits for something else, such as rows that the others may bring: gives up a
  /// generation of which nothing can end any more, and has the next one. Otherwise they would wait
  /// for its next call, and it for them. Returns at once as long as a call is under way. A failure
  /// is what the next call returns.
  void FollowOthers();
  /// Returns when everybody has called it. From then on this member has the state.
  Status Settle();
  /// Whether it has the state of those that train: from the beginning, unless it joins.
  bool has_state() const { return has_state_; }

  /// How tensors travel to the other members, for people: `shared memory`, `ucx (tcp/eth0)`.
  std::string transport() const;

  /// `data` becomes the sum of everybody's, with the same bits on every member. With `wire`,
  /// float16 or bfloat16, float32 of more than 32 KiB is rounded to that where it travels between
  /// hosts, and takes half the time there.
  Status AllReduce(DType dtype, std::span<std::byte> data, std::string_view name,
                   std::optional<DType> wire = {});
  /// `data` becomes that of the member with the rank `root`.
  Status Broadcast(std::uint32_t root, std::span<std::byte> data, std::string_view name);
  /// How many bytes each member has, by member. Errors: also bad input, naming the member, when
  /// they are more than Operation::kMostBytes; so their sum does not wrap.
  Result<std::vector<std::size_t>> GatherSizes(std::size_t bytes, std::string_view name);
  /// Everybody's data, one behind the other, as `sizes` has it; this member's is in its place.
  /// Bad input, which ends nothing, when there are other sizes than members, or `data` is not as
  /// long as they are together. In an elastic group both belong in one transaction.
  Status AllGather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                   std::string_view name);
  /// Returns when everybody has called it.
  Status Barrier(std::string_view name);

  /// Does several operations as one call of an elastic group, which ends on all members or on none.
  /// `work` may be called again, after a failure of its operations, with other members: it begins
  /// with what it was first given, and passes failures on. Without membership it is called once.
  Status Transact(const Work& work);

  /// For a member that has nothing more to do. It takes part in what the others begin, without
  /// anything of its own (zeros to sum up, no rows to gather). It returns when all have left; in
  /// an elastic group also when members are lost.
  Status Leave();

  /// Ends the group for everybody: what waits in another thread fails with `why` within a moment.
  void Close(std::string_view why);

  /// How long operations took, and of that, waited for members that had not begun them. What an
  /// elastic group agrees on after each counts, too. Both grow while an operation goes on: one that
  /// waits for a member that stands still is seen at once.
  /// Threads: also while a call is under way.
  Clock::Duration busy() const;
  Clock::Duration waited() const;
  /// How many bytes of tensors they summed up, sent and gathered; of those that failed none.
  /// Threads: as above.
  std::uint64_t bytes() const { return bytes_.load(); }

 private:
  explicit Group(GroupOptions options);

  Status Connect(Membership::Formed formed) TFOS_REQUIRES(mutex_);
  /// What a generation of these members is connected with. Takes `listener` over.
  GroupOptions OptionsOf(const Membership::Formed& formed, UniqueFd listener) const
      TFOS_REQUIRES(mutex_);
  /// Whether an elastic group goes on after this failure of its generation.
  bool MayGoOn(const Status& failure) const;
  /// Gives up the generation, and has the next one. True if the transaction that was computed has
  /// been returned from by others. `after_step`: newcomers may come in.
  Result<bool> Regroup(Status why, bool after_step = false) TFOS_REQUIRES(mutex_);
  Status StartTimeline() TFOS_REQUIRES(mutex_);
  Status Commit() TFOS_REQUIRES(mutex_);
  Membership::Ready ReadyBecause(const Status& why) const TFOS_REQUIRES(mutex_);
  Status TakePartUntilAllLeave() TFOS_REQUIRES(mutex_);

  /// Does `work`. What it throws, such as for want of memory, becomes a failure, which ends the
  /// generation if the others know of an operation by then: they wait for this member.
  Status Attempt(const std::function<Status()>& work) TFOS_REQUIRES(mutex_);

  // The operations of a transaction.

  Operation Begin(Operation operation, std::string_view name) TFOS_REQUIRES(mutex_);
  /// From here on the operation takes its time.
  void Stamp(const Operation& operation) TFOS_REQUIRES(mutex_);
  /// From here on time counts, until `EndTime`, for those who ask meanwhile, too.
  void BeginTime() TFOS_REQUIRES(mutex_);
  struct Time {
    Clock::Duration all{};
    Clock::Duration waited{};  ///< For members that had not begun.
  };
  Time EndTime() TFOS_REQUIRES(mutex_);
  Status SumUp(DType dtype, std::span<std::byte> data, std::string_view name,
               std::optional<DType> wire) TFOS_REQUIRES(mutex_);
  Status Spread(std::uint32_t root, std::span<std::byte> data, std::string_view name)
      TFOS_REQUIRES(mutex_);
  Result<std::vector<std::size_t>> ShareSize(std::size_t bytes, std::string_view name)
      TFOS_REQUIRES(mutex_);
  Status Gather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                std::string_view name) TFOS_REQUIRES(mutex_);
  /// The end of the operation that was begun last. Ends the generation with `status` if it is a
  /// failure.
  Status Finish(Status status) TFOS_REQUIRES(mutex_);

  const std::unique_ptr<std::atomic<bool>> closed_;  ///< Where the mesh sees it while it waits.
  const std::uint32_t rank_;
  const std::shared_ptr<Membership> membership_;  ///< Null if the group is not elastic.
  std::atomic<std::uint32_t> size_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<bool> in_steps_ = false;
  std::atomic<bool> has_state_;

  Mutex mutex_;
  GroupOptions options_ TFOS_GUARDED_BY(mutex_);  ///< As the group was joined with.
  std::unique_ptr<Generation> generation_
      TFOS_GUARDED_BY(mutex_);                                ///< Null only while there is none.
  std::uint32_t number_ TFOS_GUARDED_BY(mutex_) = 0;          ///< Of the generation.
  std::vector<std::uint32_t> ranks_ TFOS_GUARDED_BY(mutex_);  ///< Of its members.
  std::uint64_t committed_ TFOS_GUARDED_BY(mutex_) = 0;       ///< Transactions.
  bool computed_ TFOS_GUARDED_BY(mutex_) = false;             ///< The next one.
  bool outside_ TFOS_GUARDED_BY(mutex_);                      ///< It joins, and was not let in yet.
  bool meet_ TFOS_GUARDED_BY(mutex_) = false;                 ///< After the next step.
  bool admitted_ TFOS_GUARDED_BY(mutex_) = false;             ///< In the last `MeetAfterStep`.
  bool settling_ TFOS_GUARDED_BY(mutex_) = false;             ///< It is in `Settle`.
  Status ended_ TFOS_GUARDED_BY(mutex_);  ///< Why an elastic group has no further generation.
  std::unique_ptr<Timeline> timeline_ TFOS_GUARDED_BY(mutex_);  ///< Null if none is wanted.
  Timeline::Event event_ TFOS_GUARDED_BY(mutex_);  ///< The operation that was begun last.
  std::uint64_t event_bytes_ TFOS_GUARDED_BY(mutex_) = 0;

  // For those who ask while a call is under way.
  mutable Mutex shown_mutex_;
  std::string transport_ TFOS_GUARDED_BY(shown_mutex_);
  std::vector<std::uint32_t> shown_ranks_ TFOS_GUARDED_BY(shown_mutex_);
  Clock::Duration busy_ TFOS_GUARDED_BY(shown_mutex_){};    ///< Of operations that have ended.
  Clock::Duration waited_ TFOS_GUARDED_BY(shown_mutex_){};  ///< The same.
  /// Of the operation that goes on; null if none does.
  const Generation* at_work_ TFOS_GUARDED_BY(shown_mutex_) = nullptr;
  Clock::TimePoint event_begin_ TFOS_GUARDED_BY(shown_mutex_);
};

/// The operations of a Group while it does a transaction. See there.
///
/// Owner and lifetime: of Group::Transact, for one call of its work. Threads: that of the call.
class Group::Transaction {
 public:
  /// This member's place among those of the generation.
  std::uint32_t place() const;
  std::uint32_t size() const { return group_.size(); }
  /// Whether the elements of an AllReduce of so many bytes are rounded to its `wire`.
  bool Narrows(std::size_t bytes) const;

  Status AllReduce(DType dtype, std::span<std::byte> data, std::string_view name,
                   std::optional<DType> wire = {});
  Status Broadcast(std::uint32_t root, std::span<std::byte> data, std::string_view name);
  Result<std::vector<std::size_t>> GatherSizes(std::size_t bytes, std::string_view name);
  Status AllGather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                   std::string_view name);

 private:
  friend class Group;
  explicit Transaction(Group& group) : group_(group) {}

  Group& group_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_GROUP_H_
