#include "simulation/node/program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/format.h"

namespace tfos::simulation {

using Progress = Member::Progress;

Program::Program(const Scenario& scenario, int incarnation, bool joins, Member& member,
                 std::vector<std::unique_ptr<Reader>>& readers, Watch& watch)
    : scenario_(scenario),
      incarnation_(incarnation),
      joins_(joins),
      member_(member),
      readers_(readers),
      watch_(watch),
      queues_(readers.size()) {}

Place Program::place() const {
  Place place{.round = round_, .step = step_};
  for (const auto& reader : readers_) place.epochs.push_back(reader->epoch());
  return place;
}

Program::Step Program::Do(Progress progress, Stage next) {
  if (progress == Progress::kWaits) return Step::kWaits;
  if (progress == Progress::kEnded) return Step::kFailed;
  if (progress == Progress::kDone) stage_ = next;
  return Step::kMoved;
}

bool Program::Transact(const Deed& deed, bool has_rows, Step& step) {
  const Progress progress = member_.Transact(deed, has_rows, place());
  step = Do(progress, stage_);
  if (progress != Progress::kDone) return false;
  watch_.Returned(incarnation_, member_.committed() - 1, member_.result());
  return true;
}

void Program::GoTo(const Place& place) {
  round_ = place.round;
  step_ = place.step;
  for (std::size_t i = 0; i < place.epochs.size(); ++i) readers_[i]->BeginAt(place.epochs[i]);
}

Program::Step Program::Advance() {
  if (returns_early_ && is_between()) return ReturnNow();
  switch (stage_) {
    case Stage::kBegins:
      // Other nodes may be losing theirs: the coordinator hears which epoch this one comes to.
      if (!joins_ && scenario_.fed) readers_.front()->TellEpoch();
      return Do(member_.Begin(), joins_ ? Stage::kComesIn : Stage::kShares);
    case Stage::kComesIn:
      sharing_in_ = true;
      return Do(member_.ComeIn(), Stage::kShares);
    case Stage::kShares:
      return Share();
    case Stage::kSettles: {
      const Progress progress = member_.Settle();
      if (progress == Progress::kDone) {
        watch_.Returned(incarnation_, member_.committed() - 1, member_.result());
      }
      return Do(progress, scenario_.fed ? Stage::kTakes : Stage::kBeginsPass);
    }
    case Stage::kBeginsPass:
      return BeginPass();
    case Stage::kBarrier: {
      Step step = Step::kWaits;
      if (!Transact({.kind = Deed::Kind::kBarrier, .first = round_}, false, step)) return step;
      member_.SetInSteps(false);
      stage_ = Stage::kMeets;
      return step;
    }
    case Stage::kMeets: {
      const Step step =
          Do(member_.MeetAfterStep(), scenario_.fed ? Stage::kTakes : Stage::kBeginsPass);
      if (stage_ != Stage::kMeets && member_.admitted()) {
        stage_ = Stage::kShares;
        sharing_in_ = true;
      }
      return step;
    }
    case Stage::kTakes:
      return TakeBatch();
    case Stage::kSteps:
      return MakeStep();
    case Stage::kLeaves: {
      const Step step = Do(member_.Leave(), Stage::kOver);
      return stage_ == Stage::kOver ? Step::kDone : step;
    }
    case Stage::kOver:
      return Step::kWaits;
  }
  return Step::kWaits;
}

Program::Step Program::Share() {
  if (shared_ == scenario_.shares) {
    shared_ = 0;
    stage_ = std::exchange(sharing_in_, false) ? Stage::kSettles : Stage::kBeginsPass;
    return Step::kMoved;
  }
  Step step = Step::kWaits;
  if (!Transact({.kind = Deed::Kind::kShare, .first = shared_}, false, step)) return step;
  if (!member_.has_state()) GoTo(member_.result().place);
  ++shared_;
  return step;
}

Program::Step Program::BeginPass() {
  if (!scenario_.fed) {
    member_.SetInSteps(step_ < scenario_.steps);
    if (step_ == scenario_.steps) return ReturnNow();
    stage_ = Stage::kSteps;
    return Step::kMoved;
  }
  const bool at_begin =
      std::ranges::all_of(readers_,
                          [](const auto& reader) { return reader->EpochToBegin().has_value(); }) &&
      std::ranges::none_of(queues_, [](const Queue& queue) { return queue.ended.has_value(); });
  member_.SetInSteps(at_begin);
  stage_ = Stage::kBarrier;
  return Step::kMoved;
}

Program::Step Program::TakeBatch() {
  if (scenario_.steps_per_pass > 0 && steps_ == scenario_.steps_per_pass) return EndPass();
  has_batch_ = false;
  Queue& queue = queues_[static_cast<std::size_t>(queue_)];
  Reader& reader = *readers_[static_cast<std::size_t>(queue_)];
  epoch_ = queue.ended.value_or(reader.epoch() + queue.passes_after);
  if (!queue.ended) {
    if (const Progress progress = member_.Follow(); progress != Progress::kDone) {
      return Do(progress, stage_);
    }
    switch (reader.Take()) {
      case Reader::Next::kWaits:
        return Step::kWaits;
      case Reader::Next::kMoved:
        return Step::kMoved;
      case Reader::Next::kBatch:
        has_batch_ = true;
        break;
      case Reader::Next::kEndOfEpoch:
        watch_.Used(incarnation_, queue_, epoch_, reader.TakeDropped(), /*trained=*/false);
        queue.ended = epoch_;
        break;
      case Reader::Next::kEndOfFeed:
        queue.ended = epoch_;
        queue.feed_over = true;
    }
  }
  stage_ = Stage::kSteps;
  return Step::kMoved;
}

Program::Step Program::MakeStep() {
  Step step = Step::kWaits;
  const Deed deed{
      .kind = Deed::Kind::kStep, .first = queue_, .second = scenario_.fed ? epoch_ : step_};
  if (!Transact(deed, has_batch_, step)) return step;
  if (!scenario_.fed) {
    ++step_;
    stage_ = Stage::kMeets;
    return step;
  }
  stage_ = Stage::kTakes;
  if (has_batch_) {
    watch_.Used(incarnation_, queue_, epoch_, readers_[static_cast<std::size_t>(queue_)]->batch(),
                /*trained=*/true);
  }
  if (member_.result().with_rows != 0) {
    ++steps_;
    return step;
  }
  Queue& queue = queues_[static_cast<std::size_t>(queue_)];
  queue.ended.reset();
  if (queue.feed_over) ++queue.passes_after;
  queue.over = queue.over || queue.feed_over;
  return EndPass();
}

Program::Step Program::EndPass() {
  steps_ = 0;
  queue_ = (queue_ + 1) % static_cast<int>(readers_.size());
  stage_ = Stage::kTakes;
  if (queue_ != 0) return Step::kMoved;
  ++round_;
  if (std::ranges::all_of(queues_, &Queue::over)) return ReturnNow();
  stage_ = Stage::kBeginsPass;
  return Step::kMoved;
}

Program::Step Program::ReturnNow() {
  returns_early_ = false;
  member_.SetInSteps(false);
  stage_ = Stage::kLeaves;
  return Step::kReturned;
}

std::string Program::Describe() const {
  constexpr const char* kStages[] = {"begins",        "comes in",        "shares", "settles",
                                     "begins a pass", "is in a barrier", "meets",  "takes a batch",
                                     "is in a step",  "leaves",          "is over"};
  return fmt::format("{}, round {}, step {}, queue {}", kStages[static_cast<int>(stage_)], round_,
                     scenario_.fed ? steps_ : step_, queue_);
}

}  // namespace tfos::simulation
