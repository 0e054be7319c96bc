#include "simulation/node/reader.h"

#include <algorithm>
#include <cstddef>

#include "base/format.h"

namespace tfos::simulation {
namespace {

using Move = feed::EpochSteps::Move;

constexpr std::uint64_t kAllOfThem = 1'000'000;  // batches

}  // namespace

Reader::Reader(Options options, const Scenario& scenario, feed::StepDesk& tickets, Random& random)
    : options_(std::move(options)),
      scenario_(scenario),
      tickets_(tickets),
      random_(random),
      name_(NameOf(options_.queue)),
      batches_{.rows = static_cast<std::uint64_t>(scenario.batch), .columns = {}},
      steps_(name_, static_cast<std::uint32_t>(options_.node_id)) {}

bool Reader::Has(int epoch, int chunk) const {
  const auto found = epochs_.find(epoch);
  return found != epochs_.end() && found->second.chunks.contains(chunk);
}

void Reader::Accept(int epoch, int chunk, const std::vector<int>& rows) {
  Epoch& to = epochs_[epoch];
  to.chunks.insert(chunk);
  to.rows.insert(to.rows.end(), rows.begin(), rows.end());
}

void Reader::TakePassed(int from, const Pass& pass) {
  Epoch& to = epochs_[pass.epoch];
  if (to.pieces.emplace(from, pass.number).second) to.passed.emplace_back(from, pass);
}

bool Reader::HasEnd(int epoch) const {
  if (ended_ >= epoch || feed_over_) return true;
  return std::ranges::any_of(epochs_, [&](const auto& entry) {
    return entry.first > epoch && !entry.second.chunks.empty();
  });
}

Reader::Ahead Reader::WhatIsAhead() const {
  const auto found = epochs_.find(epoch_);
  const std::size_t all = found == epochs_.end() ? 0 : found->second.rows.size();
  Ahead ahead{.rows = seen_,
              .epoch_over = seen_ == all && HasEnd(epoch_),
              .epoch = static_cast<std::uint32_t>(epoch_),
              // What has been given back to its feeder can't be passed on: less
              // than a batch.
              .passable_rows = seen_ - std::min(seen_, stuck_)};
  ahead.feed_over =
      ahead.epoch_over && feed_over_ && ended_ < epoch_ && seen_ == 0 && steps_.made() == 0;
  return ahead;
}

Reader::Ahead Reader::LookAhead(std::uint64_t batches) {
  const auto found = epochs_.find(epoch_);
  const std::uint64_t all = found == epochs_.end() ? 0 : found->second.rows.size();
  seen_ = std::max(seen_, std::min(all, batches * batches_.rows));
  const Ahead ahead = WhatIsAhead();
  end_seen_ = end_seen_ || (ahead.epoch_over && ended_ >= epoch_);
  return ahead;
}

void Reader::Report(const Ahead& ahead, bool waits) {
  feed::StepReport report = steps_.ReportOf(ahead, batches_);
  report.waits = waits;
  report.looked = looked_;
  const Status sent = tickets_.Report(report);
  static_cast<void>(sent.ok());
}

void Reader::TellEpoch() {
  if (!EpochToBegin()) return;
  const Status sent = tickets_.Report(
      {.queue = name_, .epoch = static_cast<std::uint32_t>(epoch_), .looked = tickets_.look()});
  static_cast<void>(sent.ok());
}

std::optional<feed::StepGrant> Reader::Granted() const {
  std::optional<feed::StepGrant> grant;
  tickets_.Has(name_, static_cast<std::uint32_t>(epoch_), [&](const feed::StepGrant& known) {
    grant = known;
    return true;
  });
  return grant;
}

Reader::Next Reader::Take() {
  if (terminated_) return Next::kEndOfFeed;
  if (stopped_ && scenario_.remainder == feed::Remainder::kJoin) return Next::kEndOfFeed;
  if (under_way_) return Next::kWaits;
  if (awaits_rows_) {
    looked_ = tickets_.look();
    const Ahead now = LookAhead(static_cast<std::uint64_t>(scenario_.ahead));
    if (now.rows < batches_.rows && !now.epoch_over && !now.feed_over) {
      Report(now, /*waits=*/true);
      return Next::kWaits;
    }
    awaits_rows_ = to_end_ = false;
  }
  const Ahead ahead = LookAhead(to_end_ ? kAllOfThem : static_cast<std::uint64_t>(scenario_.ahead));
  if (ahead.feed_over) return TakeStep(ahead, {});
  if (to_end_ && !ahead.epoch_over) return Next::kWaits;
  const std::optional<feed::StepGrant> grant = Granted();
  const bool enough = grant && steps_.IsEnough(*grant, ahead);
  if (steps_.MayReport()) Report(ahead, !enough);
  if (!enough) {
    if (tickets_.look() == looked_) return Next::kWaits;
    looked_ = tickets_.look();
    return Next::kMoved;
  }
  const Move move = steps_.Next(*grant, ahead, batches_);
  if (move == Move::kStop) return Next::kEndOfFeed;
  if (move == Move::kStep) return TakeStep(ahead, *grant);
  if (!std::exchange(to_end_, true) || move == Move::kLookToEnd) return Next::kMoved;
  return move == Move::kPassOn ? PassOn(*grant) : TakeOver(*grant);
}

Reader::Next Reader::PassOn(const feed::StepGrant& grant) {
  const std::optional<feed::RowPass> pass = steps_.RestToPass(grant);
  if (!pass) {
    steps_.EndPassing();
    return Next::kMoved;
  }
  // The same rows with the same number, until they are there.
  if (retry_ && retry_->to.node_id == pass->to.node_id) {
    under_way_ = *retry_;
  } else {
    const std::deque<int>& rows = epochs_[epoch_].rows;
    const auto count = std::min<std::ptrdiff_t>(random_.Between(1, static_cast<int>(pass->rows)),
                                                static_cast<std::ptrdiff_t>(rows.size()));
    under_way_ = Pass{.to = pass->to,
                      .epoch = epoch_,
                      .number = ++pieces_,
                      .rows = std::vector<int>(rows.end() - count, rows.end())};
  }
  options_.pass(*under_way_);
  return Next::kWaits;
}

void Reader::OnPassed(bool arrived) {
  retry_ = std::exchange(under_way_, std::nullopt);
  if (!retry_ || !arrived) return;
  std::deque<int>& rows = epochs_[epoch_].rows;
  const std::size_t count = retry_->rows.size();
  rows.resize(rows.size() - count);
  seen_ -= count;
  steps_.OnPassed(retry_->to.node_id, count);
  retry_.reset();
}

Reader::Next Reader::TakeOver(const feed::StepGrant& grant) {
  Epoch& at = epochs_[epoch_];
  if (!at.passed.empty()) {
    const auto& [from, pass] = at.passed.front();
    at.rows.insert(at.rows.end(), pass.rows.begin(), pass.rows.end());
    steps_.OnTaken(static_cast<std::uint32_t>(from), pass.rows.size());
    at.passed.pop_front();
    return Next::kMoved;
  }
  if (steps_.RestToTakeOver(grant) > 0) return Next::kWaits;
  steps_.EndTaking();
  return Next::kMoved;
}

Reader::Next Reader::TakeStep(const Ahead& ahead, const feed::StepGrant& grant) {
  if (steps_.IsOver(scenario_.remainder, grant, ahead, batches_)) {
    // Drops what is left, to the epoch's end.
    to_end_ = true;
    return HasEnd(epoch_) ? End() : Next::kWaits;
  }
  std::deque<int>& rows = epochs_[epoch_].rows;
  const auto count = static_cast<std::ptrdiff_t>(std::min(ahead.rows, batches_.rows));
  batch_.assign(rows.begin(), rows.begin() + count);
  rows.erase(rows.begin(), rows.begin() + count);
  seen_ -= static_cast<std::uint64_t>(count);
  steps_.OnBatch(static_cast<std::uint64_t>(count));
  awaits_rows_ = true;
  return Next::kBatch;
}

Reader::Next Reader::End() {
  const bool end_of_feed = ended_ < epoch_ && feed_over_;
  Epoch& at = epochs_[epoch_];
  dropped_.assign(at.rows.begin(), at.rows.end());
  at.rows.clear();
  if (end_of_feed) return Next::kEndOfFeed;
  ++epoch_;
  steps_.BeginEpoch();
  seen_ = 0;
  to_end_ = end_seen_ = false;
  awaits_rows_ = true;
  retry_.reset();
  stuck_ =
      random_.Chance(50) ? 0 : static_cast<std::uint64_t>(random_.Between(0, scenario_.batch - 1));
  return Next::kEndOfEpoch;
}

std::optional<int> Reader::EpochToBegin() const {
  if (seen_ > 0 || made() > 0 || end_seen_) return std::nullopt;
  return epoch_;
}

std::uint64_t Reader::full_batches() const {
  const auto found = epochs_.find(epoch_);
  return made() + (found == epochs_.end() ? 0 : found->second.rows.size() / batches_.rows);
}

std::string Reader::Describe() const {
  const auto found = epochs_.find(epoch_);
  const auto grant = Granted();
  return fmt::format(
      "epoch {}: {} rows, {} seen, {} made, ended {}{}{}{}{}, grant {}", epoch_,
      found == epochs_.end() ? 0 : found->second.rows.size(), seen_, made(), ended_,
      awaits_rows_ ? ", awaits rows" : "", to_end_ ? ", to its end" : "",
      under_way_ ? ", passes on" : "", steps_.passed_on() ? ", has passed on" : "",
      grant ? fmt::format("{}{}", grant->granted, grant->final ? " final" : "") : "none");
}

}  // namespace tfos::simulation
