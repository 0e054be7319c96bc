#include "simulation/node/member.h"

#include <algorithm>
#include <utility>

namespace tfos::simulation {
namespace {

/// `spark.tfos.tensors.regroupTimeout`.
constexpr seconds kConnectTimeout{60};
/// It was said, and the answer is still to come.
const Status& Asked() {
  static const Status kAsked(ErrorKind::kInterrupted, "asked");
  return kAsked;
}

}  // namespace

Member::Member(Options options, Mesh& mesh, Scheduler& scheduler, Random& random)
    : options_(std::move(options)),
      mesh_(mesh),
      scheduler_(scheduler),
      random_(random),
      generations_([this](const control::GroupReady& ready) -> Status {
        if (ready.leaves) {
          options_.send(ready);
          return {};
        }
        if (wanted_ == ready.generation) return {};
        wanted_ = ready.generation;
        options_.send(ready);
        return Asked();
      }),
      members_(options_.members),
      outside_(options_.joins),
      has_state_(!options_.joins) {
  if (outside_) {
    state_ = State::kBetween;
  } else {
    mesh_.Join(0, options_.node_id, members_);
    connect_until_ = Scheduler::TimePoint::max();
  }
}

void Member::On(const control::Regroup& regroup) {
  opened_ = std::max(opened_, regroup.generation);
  generations_.On(regroup);
}

void Member::On(const control::FormedGroup& group) {
  formed_ = group.generation;
  generations_.On(group);
}

void Member::On(const control::NoGroup& none) {
  none_ = true;
  generations_.On(none);
}

control::GroupReady Member::Ready(bool leaves) const {
  return {.generation = std::max(wanted_, number_ + 1),
          .committed = committed_,
          .leaves = leaves,
          .reason = why_,
          .admits = after_step_,
          .lacks = has_state_ ? 0 : (settling_ && computed_ ? 1 : 2)};
}

std::optional<std::string> Member::WhyBroken() {
  if (const Status open = generations_.Check(number_); !open.ok()) return open.message();
  const Mesh::Generation& at = mesh_.At(number_);
  if ((at.gone & members_ & ~self()) != 0) return "a connection is broken";
  return std::nullopt;
}

void Member::GiveUp(std::string why) {
  why_ = std::move(why);
  if (!outside_) mesh_.Close(number_, options_.node_id);
  state_ = State::kWaiting;
  wanted_ = 0;
}

Member::Progress Member::End(std::string why) {
  end_ = std::move(why);
  state_ = State::kEnded;
  return Progress::kEnded;
}

Member::Progress Member::AwaitGroup() {
  const bool answered = wanted_ == 0 || formed_ >= wanted_ || none_ || opened_ > wanted_;
  if (!answered) return Progress::kWaits;
  const auto group = generations_.AwaitNext(Ready(/*leaves=*/false), [] { return Asked(); });
  if (group.ok()) {
    Join(*group);
    return state_ == State::kEnded ? Progress::kEnded : Progress::kMoved;
  }
  if (group.status().kind() == ErrorKind::kInterrupted) return Progress::kMoved;
  return End(group.status().ToString());
}

void Member::Join(const control::FormedGroup& group) {
  if (std::exchange(outside_, false)) committed_ = group.committed;
  if (group.admits) {
    meet_ = after_step_ = false;
    admitted_ = true;
  }
  if (group.committed == committed_ + 1 && computed_) {
    result_ = *std::exchange(computed_, std::nullopt);
    by_group_ = true;
    ++committed_;
  } else if (group.committed != committed_) {
    options_.broken(fmt::format("node {} has returned from {} transactions, and group {} says {}",
                                options_.node_id, committed_, group.generation, group.committed));
    static_cast<void>(End("it differs"));
    return;
  }
  computed_.reset();
  number_ = group.generation;
  wanted_ = 0;
  members_ = 0;
  for (const control::GroupMember& member : group.members) {
    members_ |= MaskOf(member.rank + options_.first_trainer);
  }
  if ((members_ & self()) == 0) {
    options_.broken(fmt::format("node {} is told of a group without it", options_.node_id));
  }
  mesh_.Join(number_, options_.node_id, members_);
  state_ = State::kConnecting;
  connect_until_ = scheduler_.now() + kConnectTimeout;
  scheduler_.After(kConnectTimeout, options_.wake_later);
}

Member::Progress Member::Connect() {
  if (mesh_.IsConnected(number_, options_.node_id)) {
    state_ = State::kBetween;
    return Progress::kMoved;
  }
  if (auto why = WhyBroken()) {
    GiveUp(*std::move(why));
    return Progress::kMoved;
  }
  if (scheduler_.now() < connect_until_) return Progress::kWaits;
  GiveUp("not all have come");
  return Progress::kMoved;
}

Member::Progress Member::Begin() {
  if (state_ == State::kEnded) return Progress::kEnded;
  if (state_ == State::kWaiting) return AwaitGroup();
  if (state_ == State::kConnecting) return Connect();
  return Progress::kDone;
}

Member::Progress Member::Transact(const Deed& deed, bool has_rows, const Place& place) {
  if (outside_) return End("it is not let in yet");
  if (by_group_ && state_ == State::kBetween) {
    by_group_ = false;
    return Progress::kDone;
  }
  switch (state_) {
    case State::kEnded:
      return Progress::kEnded;
    case State::kWaiting:
      return AwaitGroup();
    case State::kConnecting:
      return Connect();
    case State::kBetween: {
      // Only what the coordinator says counts here: a broken connection shows in the operation.
      if (const Status open = generations_.Check(number_); !open.ok()) {
        GiveUp(open.message());
        return Progress::kMoved;
      }
      const bool gives = has_state_ && deed.kind == Deed::Kind::kShare;
      mesh_.Post(number_, options_.node_id, committed_, deed, has_rows, gives ? &place : nullptr);
      state_ = State::kPosted;
      return Progress::kMoved;
    }
    case State::kPosted:
    case State::kComputed: {
      const Mesh::Generation& at = mesh_.At(number_);
      const Mesh::Transaction& it = at.transactions.at(committed_);
      const bool posted = state_ == State::kPosted;
      const bool complete = (posted ? it.posted : it.computed) == members_;
      auto why = WhyBroken();
      // What had arrived before counts, or does not.
      if (why && (!complete || random_.Chance(50))) {
        GiveUp(*std::move(why));
        return Progress::kMoved;
      }
      if (!complete) return Progress::kWaits;
      if (posted) {
        computed_ = it.result;
        state_ = State::kComputed;
        if (deed.kind == Deed::Kind::kShare && it.has_state == 0) {
          options_.broken(fmt::format("nobody has the state that node {} takes", options_.node_id));
        }
        mesh_.Compute(number_, options_.node_id, committed_, generations_.WantsToMeet(),
                      !in_steps_);
        return Progress::kMoved;
      }
      if (it.wants != 0 && it.prevents == 0) meet_ = true;
      result_ = *std::exchange(computed_, std::nullopt);
      ++committed_;
      state_ = State::kBetween;
      return Progress::kDone;
    }
  }
  return Progress::kWaits;
}

Member::Progress Member::Settle() {
  settling_ = true;
  const Progress progress = Transact({.kind = Deed::Kind::kSettle}, false, {});
  if (progress != Progress::kDone) return progress;
  settling_ = false;
  has_state_ = true;
  return progress;
}

Member::Progress Member::Follow() {
  if (state_ == State::kBetween) {
    const Status open = generations_.Check(number_);
    if (open.ok()) return Progress::kDone;
    GiveUp(open.message());
    return Progress::kMoved;
  }
  return Begin();
}

Member::Progress Member::MeetAfterStep() {
  if (state_ == State::kEnded) return Progress::kEnded;
  if (!asking_) {
    admitted_ = false;
    if (!std::exchange(meet_, false)) return Progress::kDone;
    asking_ = after_step_ = true;
    GiveUp("the members meet after a step");
    return Progress::kMoved;
  }
  if (state_ == State::kWaiting) return AwaitGroup();
  if (state_ == State::kConnecting) return Connect();
  asking_ = after_step_ = false;
  return Progress::kDone;
}

Member::Progress Member::ComeIn() {
  if (state_ == State::kEnded) return Progress::kEnded;
  if (!outside_ && !asking_) return Progress::kDone;
  if (!std::exchange(asking_, true)) {
    GiveUp("it joins");
    return Progress::kMoved;
  }
  if (state_ == State::kWaiting) return AwaitGroup();
  if (state_ == State::kConnecting) return Connect();
  asking_ = false;
  return Progress::kDone;
}

Member::Progress Member::TakePart() {
  const Mesh::Generation& at = mesh_.At(number_);
  const auto found = at.transactions.find(takes_part_in_);
  if (found == at.transactions.end()) return Progress::kWaits;
  const Mesh::Transaction& it = found->second;
  if ((it.posted & self()) == 0) {
    mesh_.PostNothing(number_, options_.node_id, takes_part_in_);
    return Progress::kMoved;
  }
  if (it.posted != members_) return Progress::kWaits;
  if ((it.computed & self()) == 0) {
    mesh_.Compute(number_, options_.node_id, takes_part_in_, false, false);
    return Progress::kMoved;
  }
  if (it.computed != members_) return Progress::kWaits;
  ++takes_part_in_;
  return Progress::kMoved;
}

Member::Progress Member::Leave() {
  if (state_ == State::kEnded) return Progress::kEnded;
  if (outside_) return Progress::kDone;
  if (!left_) {
    left_ = true;
    takes_part_in_ = committed_;
    mesh_.Leave(number_, options_.node_id);
    return Progress::kMoved;
  }
  if (left_ && (mesh_.At(number_).left & members_) == members_) {
    state_ = State::kEnded;
    return Progress::kDone;
  }
  if (auto why = WhyBroken()) {
    GiveUp(*std::move(why));
    static_cast<void>(generations_.Leave(Ready(/*leaves=*/true)).ok());
    state_ = State::kEnded;
    return Progress::kDone;
  }
  return TakePart();
}

void Member::Die() {
  const bool all_left = left_ && (mesh_.At(number_).left & members_) == members_;
  if (!outside_ && !all_left) mesh_.Close(number_, options_.node_id);
  state_ = State::kEnded;
}

std::string Member::Describe() const {
  constexpr const char* kStates[] = {"connects", "is between transactions", "has posted",
                                     "computed", "waits for a group",       "has ended"};
  return fmt::format("{} in generation {} of {:b}, {} committed{}{}{}",
                     kStates[static_cast<int>(state_)], number_, members_, committed_,
                     left_ ? ", has left" : "",
                     wanted_ > 0 ? fmt::format(", is ready for {}", wanted_) : "",
                     end_.empty() ? "" : ", " + end_);
}

}  // namespace tfos::simulation
