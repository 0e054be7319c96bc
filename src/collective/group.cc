#include "collective/group.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/guarded.h"

namespace tfos::collective {

Group::Group(GroupOptions options)
    : closed_(std::make_unique<std::atomic<bool>>(false)),
      rank_(options.rank),
      membership_(options.membership),
      has_state_(!options.joins),
      options_(std::move(options)),
      outside_(options_.joins) {}

Result<std::unique_ptr<Group>> Group::Join(GroupOptions options) {
  Membership::Formed first;
  first.generation = options.generation;
  first.ranks = options.ranks;
  if (first.ranks.empty()) {
    first.ranks.resize(options.members.size());
    std::iota(first.ranks.begin(), first.ranks.end(), 0);
  }
  for (const std::uint32_t rank : first.ranks) {
    if (rank >= options.members.size()) {
      return Status(ErrorKind::kBadInput, fmt::format("rank {} does not exist: the group has {} "
                                                      "members",
                                                      rank, options.members.size()));
    }
    first.members.push_back(options.members[rank]);
  }
  std::unique_ptr<Group> group(new Group(std::move(options)));
  const MutexLock lock(group->mutex_);
  if (group->outside_) return group;
  Status joined = group->Connect(std::move(first));
  // A member that does not come within the deadline may never mean to: only the coordinator knows
  // of one that is lost.
  if (!joined.ok() && joined.kind() == ErrorKind::kReconnect && group->MayGoOn(joined)) {
    joined = group->Regroup(std::move(joined)).status();
  }
  TFOS_RETURN_IF_ERROR(joined);
  TFOS_RETURN_IF_ERROR(group->StartTimeline());
  return group;
}

Status Group::StartTimeline() {
  if (options_.timeline.empty()) return {};
  const std::string& name = options_.members[rank_].name;
  TFOS_ASSIGN_OR_RETURN(timeline_, Timeline::Create(options_.timeline, name, rank_, transport()));
  return {};
}

GroupOptions Group::OptionsOf(const Membership::Formed& formed, UniqueFd listener) const {
  GroupOptions options;
  options.members = formed.members;
  const auto place = std::ranges::find(formed.ranks, rank_) - formed.ranks.begin();
  options.rank = static_cast<std::uint32_t>(place);
  options.key = options_.key;
  options.generation = formed.generation;
  options.listener = std::move(listener);
  options.keep_listening = membership_ != nullptr;
  options.shared_memory = options_.shared_memory;
  options.host = options_.host;
  options.encryption = options_.encryption;
  options.rdma = options_.rdma;
  options.ucx_transports = options_.ucx_transports;
  options.packaged_ucx = options_.packaged_ucx;
  options.connect_timeout = formed.generation == options_.generation ? options_.connect_timeout
                                                                     : options_.regroup_timeout;
  options.stall_after = options_.stall_after;
  options.check = [closed = closed_.get(), membership = membership_, generation = formed.generation,
                   check = options_.check]() -> Status {
    if (*closed) return {ErrorKind::kReconnect, "this member has left the group"};
    if (membership != nullptr) TFOS_RETURN_IF_ERROR(membership->Check(generation));
    return check ? check() : Status();
  };
  return options;
}

Status Group::Connect(Membership::Formed formed) {
  UniqueFd listener;
  if (membership_ == nullptr) {
    listener = std::move(options_.listener);
  } else {
    // The port is this member's for all generations.
    listener.Reset(::fcntl(options_.listener.get(), F_DUPFD_CLOEXEC, 0));
    if (!listener.valid()) return Status::FromErrno(errno, "listen for the other members again");
  }
  number_ = formed.generation;
  TFOS_ASSIGN_OR_RETURN(generation_, Generation::Connect(OptionsOf(formed, std::move(listener))));
  ranks_ = std::move(formed.ranks);
  size_ = generation_->size();
  std::string transport = generation_->DescribeTransport();
  LogInfo("{} exchanges tensors over {}", options_.members[rank_].name, transport);
  const MutexLock lock(shown_mutex_);
  transport_ = std::move(transport);
  shown_ranks_ = ranks_;
  return {};
}

std::string Group::transport() const {
  const MutexLock lock(shown_mutex_);
  return transport_;
}

std::vector<std::uint32_t> Group::ranks() const {
  const MutexLock lock(shown_mutex_);
  return shown_ranks_;
}

Clock::Duration Group::busy() const {
  const MutexLock lock(shown_mutex_);
  return at_work_ == nullptr ? busy_ : busy_ + (Clock::Steady().Now() - event_begin_);
}

Clock::Duration Group::waited() const {
  const MutexLock lock(shown_mutex_);
  return at_work_ == nullptr ? waited_ : waited_ + at_work_->waited();
}

bool Group::MayGoOn(const Status& failure) const {
  return membership_ != nullptr && !*closed_ &&
         (failure.kind() == ErrorKind::kReconnect || failure.kind() == ErrorKind::kRetryLater);
}

Membership::Ready Group::ReadyBecause(const Status& why) const {
  return {.generation = number_ + 1,
          .committed = committed_,
          .reason = why.ToString(),
          .lacks = has_state_ ? 0 : (settling_ && computed_ ? 1 : 2)};
}

Result<bool> Group::Regroup(Status why, bool after_step) {
  const std::string& name = options_.members[rank_].name;
  const InterruptCheck check = [closed = closed_.get()]() -> Status {
    if (*closed) return {ErrorKind::kReconnect, "this member has left the group"};
    return {};
  };
  bool committed = false;
  while (true) {
    if (generation_ != nullptr) static_cast<void>(generation_->Fail(why).ok());
    generation_.reset();
    if (outside_) {
      LogInfo("{} waits until the others let it in", name);
    } else {
      Log(after_step ? LogLevel::kInfo : LogLevel::kWarning,
          "{} gives up generation {} of its group: {}", name, number_, why.ToString());
    }
    Membership::Ready ready = ReadyBecause(why);
    ready.admits = after_step;
    auto formed = membership_->AwaitNext(ready, check);
    if (!formed.ok()) {
      ended_ = formed.status();
      return ended_;
    }
    if (std::exchange(outside_, false)) committed_ = formed->committed;
    if (formed->admits) {
      // Whatever happens from here on, all that were ready know.
      meet_ = after_step = false;
      admitted_ = true;
    }
    if (formed->committed == committed_ + 1 && computed_) {
      committed = true;
      ++committed_;
    } else if (formed->committed != committed_) {
      ended_ = {ErrorKind::kBug,
                fmt::format("{} has returned from {} operations, and another member of generation "
                            "{} from {}",
                            name, committed_, formed->generation, formed->committed)};
      return ended_;
    }
    computed_ = false;
    LogInfo("{} goes on in generation {} of its group, with {} members", name, formed->generation,
            formed->members.size());
    why = Connect(*std::move(formed));
    if (why.ok()) return committed;
    if (!MayGoOn(why)) {
      ended_ = std::move(why);
      return ended_;
    }
  }
}

Status Group::Commit() {
  // Not one of the program's operations: the timeline knows nothing of it.
  std::array<std::int32_t, 2> said = {membership_->WantsToMeet() ? 1 : 0, in_steps_ ? 0 : 1};
  const Operation operation = generation_->Begin(
      {.kind = OperationKind::kAllReduce, .dtype = DType::kInt32, .elements = said.size()},
      "commit");
  BeginTime();
  const Status summed_up = generation_->SumUp(operation, std::as_writable_bytes(std::span(said)));
  EndTime();
  TFOS_RETURN_IF_ERROR(summed_up);
  const auto [wanted, prevented] = said;
  if (wanted > 0 && prevented == 0) meet_ = true;
  return {};
}

Result<bool> Group::MeetAfterStep() {
  const MutexLock lock(mutex_);
  if (!ended_.ok()) return ended_;
  if (!std::exchange(meet_, false)) return false;
  admitted_ = false;
  TFOS_RETURN_IF_ERROR(
      Regroup({ErrorKind::kReconnect, "the members meet after a step"}, true).status());
  return admitted_;
}

Status Group::ComeIn() {
  const MutexLock lock(mutex_);
  if (!ended_.ok()) return ended_;
  if (!outside_) return {};
  TFOS_RETURN_IF_ERROR(Regroup({ErrorKind::kReconnect, "it joins"}).status());
  return StartTimeline();
}

// The analysis can't follow a lock that may not have been taken into a guard.
void Group::FollowOthers() TFOS_UNCHECKED {
  if (membership_ == nullptr || !mutex_.TryLock()) return;
  struct Unlock {
    Mutex& mutex;
    ~Unlock() TFOS_UNCHECKED { mutex.Unlock(); }
  };
  const Unlock unlock{mutex_};
  if (outside_ || !ended_.ok()) return;
  Status open = membership_->Check(number_);
  if (!open.ok()) static_cast<void>(Regroup(std::move(open)).ok());
}

Status Group::Settle() {
  {
    const MutexLock lock(mutex_);
    settling_ = true;
  }
  Status settled = Barrier("settle");
  const MutexLock lock(mutex_);
  settling_ = false;
  if (settled.ok()) has_state_ = true;
  return settled;
}

Status Group::Transact(const Work& work) {
  const MutexLock lock(mutex_);
  Transaction transaction(*this);
  const auto attempt = [&] { return work(transaction); };
  if (membership_ == nullptr) return Attempt(attempt);
  if (outside_) {
    return {ErrorKind::kBadInput,
            fmt::format("{} joins nodes that train already: it takes part in what they do together "
                        "from the beginning of `fit` or of tfos.elastic.State on, and in nothing "
                        "before",
                        options_.members[rank_].name)};
  }
  while (true) {
    if (!ended_.ok()) return ended_;
    computed_ = false;
    Status done = membership_->Check(number_);
    if (done.ok()) done = Attempt(attempt);
    if (done.ok()) {
      computed_ = true;
      done = Attempt([this] {
        mutex_.AssertHeld();
        return Commit();
      });
    }
    if (done.ok()) {
      ++committed_;
      computed_ = false;
      return done;
    }
    if (!MayGoOn(done)) return done;
    TFOS_ASSIGN_OR_RETURN(const bool committed, Regroup(std::move(done)));
    if (committed) return {};
  }
}

Status Group::Attempt(const std::function<Status()>& work) {
  const std::uint64_t before = generation_->begun();
  Status done;
  Guarded([&] { done = work(); },
          [&](ErrorKind kind, const char* what) {
            mutex_.AssertHeld();
            // First, as the generation may be gone soon, and needs no memory.
            EndTime();
            done = {kind, what};
            if (generation_->begun() != before) done = generation_->Fail(std::move(done));
          });
  return done;
}

Operation Group::Begin(Operation operation, std::string_view name) {
  operation = generation_->Begin(std::move(operation), name);
  Stamp(operation);
  return operation;
}

void Group::Stamp(const Operation& operation) {
  event_bytes_ = operation.elements * ElementBytes(operation.dtype);
  BeginTime();
  if (timeline_ == nullptr) return;
  event_.operation = operation;
  event_.begin = std::chrono::system_clock::now();
}

void Group::BeginTime() {
  const MutexLock lock(shown_mutex_);
  event_begin_ = Clock::Steady().Now();
  at_work_ = generation_.get();
}

Group::Time Group::EndTime() {
  const MutexLock lock(shown_mutex_);
  if (at_work_ == nullptr) return {};
  const Time time{.all = Clock::Steady().Now() - event_begin_, .waited = generation_->waited()};
  busy_ += time.all;
  waited_ += time.waited;
  at_work_ = nullptr;
  return time;
}

Status Group::Finish(Status status) {
  const Time time = EndTime();
  if (status.ok()) bytes_ += event_bytes_;
  if (timeline_ != nullptr) {
    event_.bytes = event_bytes_;
    event_.duration = time.all;
    event_.waited = time.waited;
    event_.failed = !status.ok();
    timeline_->Add(event_);
  }
  return status.ok() ? status : generation_->Fail(std::move(status));
}

Status Group::TakePartUntilAllLeave() {
  if (Status told = generation_->TellLeft(); !told.ok()) return generation_->Fail(std::move(told));
  while (true) {
    const auto next = generation_->AwaitOther();
    if (!next.ok()) return generation_->Fail(next.status());
    if (!*next) {
      generation_->Disconnect();
      return {};
    }
    // It is begun as any other, and the timeline has it.
    Stamp(**next);
    TFOS_RETURN_IF_ERROR(Finish(generation_->TakePart(**next)));
  }
}

Status Group::Leave() {
  const MutexLock lock(mutex_);
  if (!ended_.ok()) return ended_;
  if (outside_) return {};  // It has never been in.
  Status left = Attempt([this] {
    mutex_.AssertHeld();
    return TakePartUntilAllLeave();
  });
  if (!left.ok() && MayGoOn(left)) {
    // The others go on without it.
    ended_ = {ErrorKind::kReconnect, "this member has left its group"};
    return membership_->Leave(ReadyBecause(left));
  }
  return left;
}

void Group::Close(std::string_view why) {
  *closed_ = true;
  const MutexLock lock(mutex_);
  if (generation_ != nullptr) {
    static_cast<void>(generation_->Fail({ErrorKind::kReconnect, std::string(why)}).ok());
  }
}

}  // namespace tfos::collective
