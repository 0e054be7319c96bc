#include "feed/read/steps/step_desk.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::feed {
namespace {

/// After so long a wait it is worth a line which nodes are waited for, and again after as much.
constexpr std::chrono::seconds kLogInterval{15};
/// How many more batches are news; well below what a node looks ahead.
constexpr std::uint64_t kWorthTelling = 8;

/// What it takes in memory, with its key, at least.
std::size_t BytesOf(const StepGrant& grant) {
  std::size_t bytes = sizeof(grant) + 2 * grant.queue.size();
  for (const RowPass& pass : grant.passes) {
    bytes += sizeof(pass) + pass.to.unix_name.size() + pass.to.host.size();
  }
  for (const std::string& name : grant.missing) bytes += sizeof(name) + name.size();
  return bytes;
}

}  // namespace

void StepDesk::SetSender(Sender sender) {
  const MutexLock lock(mutex_);
  sender_ = std::move(sender);
}

void StepDesk::SetPasser(Passer passer) {
  const MutexLock lock(mutex_);
  passer_ = std::move(passer);
}

StepDesk::Passer StepDesk::passer() {
  const MutexLock lock(mutex_);
  return passer_;
}

Status StepDesk::Report(const StepReport& report) {
  Sender sender;
  {
    const MutexLock lock(mutex_);
    const StepReport& last = reported_[report.queue];
    const bool same_epoch = last.queue == report.queue && last.epoch == report.epoch;
    const bool worth_telling =
        !same_epoch || report.ended != last.ended ||
        report.full_batches >= last.full_batches + kWorthTelling ||
        (report.full_batches > last.full_batches && last.full_batches <= report.made) ||
        (report.batches > last.batches && last.batches <= report.made) ||
        (report.waits && !(last.waits && last.made == report.made)) || report.looked != last.looked;
    if (!worth_telling || !sender_) return {};
    sender = sender_;
  }
  // Without the lock: it may take its time, and grants must not wait for it.
  const Status sent = sender(report);
  if (sent.ok()) {
    // Only now: what was not sent is news at the next call, too.
    const MutexLock lock(mutex_);
    reported_[report.queue] = report;
  } else if (sent.kind() == ErrorKind::kRetryLater) {
    return {ErrorKind::kReconnect,
            fmt::format("the coordinator can't be told of epoch {} of '{}': {}", report.epoch,
                        report.queue, sent.ToString())};
  }
  return sent;
}

void StepDesk::OnGrant(StepGrant grant) {
  const MutexLock lock(mutex_);
  look_ = std::max(look_.load(), grant.look);
  const Key key(grant.queue, grant.epoch);
  const auto before = grants_.find(key);
  const std::size_t others = grant_bytes_ - (before == grants_.end() ? 0 : BytesOf(before->second));
  const std::size_t all = others + BytesOf(grant);
  if (all > kMostGrantBytes) {
    if (!std::exchange(said_left_out_, true)) {
      LogError(
          "feed: the coordinator's grant for epoch {} of '{}' is left out, as those that wait take "
          "{} bytes: it grants steps of more epochs than any program trains ahead",
          grant.epoch, grant.queue, grant_bytes_);
    }
    return;
  }
  grant_bytes_ = all;
  grants_.insert_or_assign(key, std::move(grant));
  changed_.NotifyAll();
}

bool StepDesk::Has(const std::string& queue, std::uint32_t epoch,
                   const std::function<bool(const StepGrant&)>& enough) {
  const MutexLock lock(mutex_);
  const auto found = grants_.find(Key(queue, epoch));
  return found != grants_.end() && enough(found->second);
}

Result<StepGrant> StepDesk::Await(const std::string& queue, std::uint32_t epoch,
                                  const std::function<bool(const StepGrant&)>& enough,
                                  const Wait& wait) {
  const Key key(queue, epoch);
  MutexLock lock(mutex_);
  const auto first = grants_.lower_bound(Key(queue, 0));
  const auto end = grants_.lower_bound(key);
  for (auto left = first; left != end; ++left) grant_bytes_ -= BytesOf(left->second);
  grants_.erase(first, end);
  if (waiting_for_ != key) {
    waiting_for_ = key;
    log_at_ = Clock::Steady().Now() + kLogInterval;
  }
  std::optional<Result<StepGrant>> result;
  bool waits = false;
  while (!result) {
    const auto found = grants_.find(key);
    if (found != grants_.end() && enough(found->second)) {
      waiting_for_.reset();
      result = found->second;
      break;
    }
    if (!std::exchange(waits, true)) waits_.Begin(Clock::Steady().Now());
    if (Clock::Steady().Now() >= log_at_) {
      log_at_ += kLogInterval;
      const std::vector<std::string> missing =
          found == grants_.end() ? std::vector<std::string>() : found->second.missing;
      lock.Unlock();
      LogWarning("feed: waiting for the other nodes to get rows of epoch {} of '{}'; {}",
                 key.second, key.first,
                 missing.empty()
                     ? "they have reported fewer"
                     : fmt::format("{} {} not reported: do all read the same dataset, with the "
                                   "same remainder=?",
                                   fmt::join(missing, ", "), missing.size() == 1 ? "has" : "have"));
      lock.Lock();
      continue;
    }
    const Status status =
        changed_.WaitRound(mutex_, wait, "the other nodes have not got their rows");
    if (!status.ok()) result = status;
  }
  if (waits) waits_.End(Clock::Steady().Now());
  return *std::move(result);
}

std::chrono::nanoseconds StepDesk::waited() const {
  const MutexLock lock(mutex_);
  return waits_.Total(Clock::Steady().Now());
}

}  // namespace tfos::feed
