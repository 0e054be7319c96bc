#include "feed/read/steps/epoch_steps.h"

#include <algorithm>

#include "base/text/choice.h"

namespace tfos::feed {
namespace {

constexpr Choice<Remainder> kRemainders[] = {
    {"join", Remainder::kJoin}, {"drop", Remainder::kDrop}, {"pad", Remainder::kPad}};

}  // namespace

Result<Remainder> RemainderFrom(std::string_view name) {
  if (name == "none") return Remainder::kNone;
  return ChoiceNamed("remainder", kRemainders, name);
}

void EpochSteps::BeginEpoch() {
  made_ = 0;
  rows_made_ = 0;
  passed_on_ = false;
  taken_over_ = false;
  rows_there_.clear();
  rows_taken_.clear();
}

void EpochSteps::OnBatch(std::uint64_t rows) {
  ++made_;
  rows_made_ += rows;
}

StepReport EpochSteps::ReportOf(const Ahead& ahead, const BatchOptions& options) const {
  return {.queue = queue_,
          .epoch = ahead.epoch,
          .full_batches = made_ + ahead.rows / options.rows,
          .ended = ahead.epoch_over,
          .batches = made_ + (ahead.rows + options.rows - 1) / options.rows,
          .rows = rows_made_ + ahead.rows,
          .passable_rows = ahead.until_read ? 0 : ahead.passable_rows,
          .batch_rows = options.rows,
          .made = made_};
}

bool EpochSteps::IsEnough(const StepGrant& grant, const Ahead& ahead) const {
  return grant.granted > made_ || grant.final || (grant.ending && !ahead.epoch_over);
}

EpochSteps::Move EpochSteps::Next(const StepGrant& grant, const Ahead& ahead,
                                  const BatchOptions& options) const {
  if (grant.stopped() && grant.granted <= made_) return Move::kStop;
  if (grant.final && !passed_on_) return Move::kPassOn;
  // No earlier: the node that passes rows on may be in a step that this one can make, and come to
  // it afterwards.
  if (grant.final && !taken_over_ && ahead.rows < options.rows) return Move::kTakeOver;
  return grant.granted > made_ || grant.final ? Move::kStep : Move::kLookToEnd;
}

bool EpochSteps::IsOver(Remainder remainder, const StepGrant& grant, const Ahead& ahead,
                        const BatchOptions& options) const {
  if (ahead.feed_over) return true;
  switch (remainder) {
    case Remainder::kDrop:
      return ahead.rows < options.rows || grant.granted <= made_;
    case Remainder::kPad:
      return grant.granted <= made_ && grant.longest <= made_;
    case Remainder::kNone:
    case Remainder::kJoin:
      break;
  }
  // Less than a full batch is left only at the epoch's end, when the rows are as even as can be.
  return ahead.rows < (options.drop_remainder ? options.rows : 1);
}

std::optional<RowPass> EpochSteps::RestToPass(const StepGrant& grant) const {
  for (const RowPass& pass : grant.passes) {
    if (pass.from != node_id_) continue;
    const auto found = rows_there_.find(pass.to.node_id);
    const std::uint64_t there = found == rows_there_.end() ? 0 : found->second;
    if (there < pass.rows)
      return RowPass{.from = node_id_, .rows = pass.rows - there, .to = pass.to};
  }
  return std::nullopt;
}

std::uint64_t EpochSteps::RestToTakeOver(const StepGrant& grant) const {
  std::uint64_t rest = 0;
  for (const RowPass& pass : grant.passes) {
    if (pass.to.node_id != node_id_) continue;
    const auto found = rows_taken_.find(pass.from);
    rest += pass.rows - (found == rows_taken_.end() ? 0 : std::min(pass.rows, found->second));
  }
  return rest;
}

}  // namespace tfos::feed
