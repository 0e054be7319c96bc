#include "feed/read/position/epoch_log.h"

#include <utility>

namespace tfos::feed {

void EpochLog::Begin() {
  const MutexLock lock(mutex_);
  keeps_ = true;
}

void EpochLog::Enter(std::uint32_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  chunks_.clear();
  places_.clear();
  added_up_ = 0;
  is_known_ = true;
  job_.reset();
  batches_.clear();
  passed_.clear();
}

void EpochLog::OnBatch(std::uint32_t epoch, std::vector<Part> parts) {
  const MutexLock lock(mutex_);
  if (!keeps_) return;
  Enter(epoch);
  // First: what throws must leave the batch out, as its rows stay then.
  if (batches_.size() >= kMostAhead) AddUp();
  batches_.push_back(std::move(parts));
}

void EpochLog::OnOtherPass() {
  const MutexLock lock(mutex_);
  is_known_ = false;  // Until the next epoch begins.
}

void EpochLog::OnPassed(std::uint32_t epoch, Part part) {
  const MutexLock lock(mutex_);
  // Numbers count all of them.
  ++pieces_passed_;
  if (!keeps_) return;
  Enter(epoch);
  passed_.emplace_back(pieces_passed_, std::move(part));
}

bool EpochLog::IsKnown(const Part& part) {
  if (part.origin == nullptr) return false;
  if (part.origin->passed) return true;
  if (!job_) job_ = part.origin->job;
  return *job_ == part.origin->job;
}

void EpochLog::AddUp() {
  for (Part& part : batches_.front()) {
    if (!IsKnown(part)) {
      is_known_ = false;
      continue;
    }
    auto place = places_.find(part.origin.get());
    if (place == places_.end()) {
      chunks_.push_back({.origin = part.origin, .rows = {}});
      place = places_.emplace(part.origin.get(), chunks_.size() - 1).first;
    }
    chunks_[place->second].rows.Add(part.rows);
  }
  batches_.pop_front();
  ++added_up_;
}

std::optional<EpochLog::Position> EpochLog::Of(std::uint32_t epoch, std::uint64_t batches) {
  const MutexLock lock(mutex_);
  if (!keeps_) return std::nullopt;
  if (epoch_ != epoch) {
    // Nothing of it came to this node, or all that is known of it was forgotten.
    const bool is_ahead = !epoch_ || *epoch_ < epoch;
    return is_ahead && batches == 0 ? std::optional(Position()) : std::nullopt;
  }
  if (batches < added_up_ || batches > added_up_ + batches_.size()) return std::nullopt;
  while (added_up_ < batches) AddUp();
  for (const auto& [number, part] : passed_) {
    // What came from another node is not passed on again.
    if (!IsKnown(part) || part.origin->passed) is_known_ = false;
  }
  if (!is_known_) return std::nullopt;
  Position position{.passed = passed_};
  for (const Chunk& chunk : chunks_) {
    for (const ItemRange& rows : chunk.rows.ranges()) {
      position.trained.push_back({.origin = chunk.origin, .rows = rows});
    }
  }
  return position;
}

std::optional<std::uint64_t> EpochLog::BatchesOf(std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  if (!keeps_ || epoch_ != epoch) return std::nullopt;
  return added_up_ + batches_.size();
}

}  // namespace tfos::feed
