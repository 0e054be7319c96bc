#include "simulation/node/reader.h"

#include <algorithm>
#include <cstddef>

#include "base/format.h"

namespace tfos::simulation {
namespace {

constexpr std::uint64_t kAllOfThem = 1'000'000;  // batches

}  // namespace

Reader::Reader(Options options, const Scenario& scenario, feed::StepDesk& tickets, Random& random)
    : options_(std::move(options)),
      scenario_(scenario),
      tickets_(tickets),
      random_(random),
      name_(NameOf(options_.queue)),
      rows_of_batch_(static_cast<std::uint64_t>(scenario.batch)) {}

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
  Ahead ahead{.rows = seen_, .epoch_over = seen_ == all && HasEnd(epoch_)};
  ahead.feed_over = ahead.epoch_over && feed_over_ && ended_ < epoch_ && seen_ == 0 && made_ == 0;
  return ahead;
}

Reader::Ahead Reader::LookAhead(std::uint64_t batches) {
  const auto found = epochs_.find(epoch_);
  const std::uint64_t all = found == epochs_.end() ? 0 : found->second.rows.size();
  seen_ = std::max(seen_, std::min(all, batches * rows_of_batch_));
  const Ahead ahead = WhatIsAhead();
  end_seen_ = end_seen_ || (ahead.epoch_over && ended_ >= epoch_);
  return ahead;
}

void Reader::Report(const Ahead& ahead, bool waits) {
  // What has been given back to its feeder can't be passed on: less than a batch.
  const std::uint64_t passable = ahead.rows - std::min(ahead.rows, stuck_);
  const Status sent =
      tickets_.Report({.queue = name_,
                       .epoch = static_cast<std::uint32_t>(epoch_),
                       .full_batches = made_ + ahead.rows / rows_of_batch_,
                       .ended = ahead.epoch_over,
                       .batches = made_ + (ahead.rows + rows_of_batch_ - 1) / rows_of_batch_,
                       .rows = rows_made_ + ahead.rows,
                       .passable_rows = passable,
                       .batch_rows = rows_of_batch_,
                       .made = made_,
                       .waits = waits,
                       .looked = looked_});
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

bool Reader::IsEnough(const feed::StepGrant& grant, const Ahead& ahead) const {
  return grant.granted > made_ || grant.final || (grant.ending && !ahead.epoch_over);
}

Reader::Next Reader::Take() {
  if (terminated_) return Next::kEndOfFeed;
  if (stopped_ && scenario_.remainder == feed::Remainder::kJoin) return Next::kEndOfFeed;
  if (under_way_) return Next::kWaits;
  if (awaits_rows_) {
    looked_ = tickets_.look();
    const Ahead now = LookAhead(static_cast<std::uint64_t>(scenario_.ahead));
    if (now.rows < rows_of_batch_ && !now.epoch_over && !now.feed_over) {
      Report(now, /*waits=*/true);
      return Next::kWaits;
    }
    awaits_rows_ = to_end_ = false;
  }
  const Ahead ahead = LookAhead(to_end_ ? kAllOfThem : static_cast<std::uint64_t>(scenario_.ahead));
  if (ahead.feed_over) return TakeStep(ahead, {});
  if (to_end_ && !ahead.epoch_over) return Next::kWaits;
  const std::optional<feed::StepGrant> grant = Granted();
  const bool enough = grant && IsEnough(*grant, ahead);
  if (!passed_on_ && rows_there_.empty()) Report(ahead, !enough);
  if (!enough) {
    if (tickets_.look() == looked_) return Next::kWaits;
    looked_ = tickets_.look();
    return Next::kMoved;
  }
  if (grant->stopped() && grant->granted <= made_) return Next::kEndOfFeed;
  if (grant->final && (!passed_on_ || (!taken_over_ && ahead.rows < rows_of_batch_))) {
    if (!std::exchange(to_end_, true)) return Next::kMoved;
    return passed_on_ ? TakeOver(*grant) : PassOn(*grant);
  }
  if (grant->granted > made_ || grant->final) return TakeStep(ahead, *grant);
  to_end_ = true;
  return Next::kMoved;
}

Reader::Next Reader::PassOn(const feed::StepGrant& grant) {
  for (const feed::RowPass& pass : grant.passes) {
    if (pass.from != static_cast<std::uint32_t>(options_.node_id)) continue;
    const std::uint64_t there = rows_there_[pass.to.node_id];
    if (there >= pass.rows) continue;
    const auto left = static_cast<int>(pass.rows - there);
    const std::deque<int>& rows = epochs_[epoch_].rows;
    // The same rows with the same number, until they are there.
    if (retry_ && retry_->to.node_id == pass.to.node_id) {
      under_way_ = *retry_;
    } else {
      const auto count = std::min<std::ptrdiff_t>(random_.Between(1, left),
                                                  static_cast<std::ptrdiff_t>(rows.size()));
      under_way_ = Pass{.to = pass.to,
                        .epoch = epoch_,
                        .number = ++pieces_,
                        .rows = std::vector<int>(rows.end() - count, rows.end())};
    }
    options_.pass(*under_way_);
    return Next::kWaits;
  }
  passed_on_ = true;
  return Next::kMoved;
}

void Reader::OnPassed(bool arrived) {
  retry_ = std::exchange(under_way_, std::nullopt);
  if (!retry_ || !arrived) return;
  std::deque<int>& rows = epochs_[epoch_].rows;
  const std::size_t count = retry_->rows.size();
  rows.resize(rows.size() - count);
  seen_ -= count;
  rows_there_[retry_->to.node_id] += count;
  retry_.reset();
}

Reader::Next Reader::TakeOver(const feed::StepGrant& grant) {
  std::uint64_t expected = 0;
  for (const feed::RowPass& pass : grant.passes) {
    if (pass.to.node_id == static_cast<std::uint32_t>(options_.node_id)) expected += pass.rows;
  }
  Epoch& at = epochs_[epoch_];
  if (!at.passed.empty()) {
    const std::vector<int>& rows = at.passed.front().second.rows;
    at.rows.insert(at.rows.end(), rows.begin(), rows.end());
    taken_ += rows.size();
    at.passed.pop_front();
    return Next::kMoved;
  }
  if (taken_ < expected) return Next::kWaits;
  taken_over_ = true;
  return Next::kMoved;
}

Reader::Next Reader::TakeStep(const Ahead& ahead, const feed::StepGrant& grant) {
  bool ends = false;
  switch (scenario_.remainder) {
    case feed::Remainder::kDrop:
      ends = ahead.rows < rows_of_batch_ || grant.granted <= made_;
      break;
    case feed::Remainder::kPad:
      ends = ahead.feed_over || (grant.granted <= made_ && grant.longest <= made_);
      break;
    default:
      ends = ahead.feed_over || ahead.rows == 0;
  }
  if (ends) {
    // Drops what is left, to the epoch's end.
    to_end_ = true;
    return HasEnd(epoch_) ? End() : Next::kWaits;
  }
  std::deque<int>& rows = epochs_[epoch_].rows;
  const auto count =
      static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(ahead.rows, rows_of_batch_));
  batch_.assign(rows.begin(), rows.begin() + count);
  rows.erase(rows.begin(), rows.begin() + count);
  seen_ -= static_cast<std::uint64_t>(count);
  rows_made_ += static_cast<std::uint64_t>(count);
  ++made_;
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
  seen_ = made_ = rows_made_ = taken_ = 0;
  passed_on_ = taken_over_ = to_end_ = end_seen_ = false;
  awaits_rows_ = true;
  rows_there_.clear();
  retry_.reset();
  stuck_ =
      random_.Chance(50) ? 0 : static_cast<std::uint64_t>(random_.Between(0, scenario_.batch - 1));
  return Next::kEndOfEpoch;
}

std::optional<int> Reader::EpochToBegin() const {
  if (seen_ > 0 || made_ > 0 || end_seen_) return std::nullopt;
  return epoch_;
}

std::uint64_t Reader::full_batches() const {
  const auto found = epochs_.find(epoch_);
  return made_ + (found == epochs_.end() ? 0 : found->second.rows.size() / rows_of_batch_);
}

std::string Reader::Describe() const {
  const auto found = epochs_.find(epoch_);
  const auto grant = Granted();
  return fmt::format(
      "epoch {}: {} rows, {} seen, {} made, ended {}{}{}{}{}, grant {}", epoch_,
      found == epochs_.end() ? 0 : found->second.rows.size(), seen_, made_, ended_,
      awaits_rows_ ? ", awaits rows" : "", to_end_ ? ", to its end" : "",
      under_way_ ? ", passes on" : "", passed_on_ ? ", has passed on" : "",
      grant ? fmt::format("{}{}", grant->granted, grant->final ? " final" : "") : "none");
}

}  // namespace tfos::simulation
