#include "feed/step_tickets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::feed {
namespace {

/// After so long a wait it is worth a line which nodes are waited for, and again after as much.
constexpr std::chrono::seconds kLogInterval{15};

}  // namespace

void StepTickets::SetSender(Sender sender) {
  const std::lock_guard lock(mutex_);
  sender_ = std::move(sender);
}

Status StepTickets::Report(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  StepReport& last = reported_[report.queue];
  if (last == report || !sender_) return {};
  TFOS_RETURN_IF_ERROR(sender_(report));
  last = report;
  return {};
}

void StepTickets::OnGrant(StepGrant grant) {
  const std::lock_guard lock(mutex_);
  grants_.insert_or_assign(Key(grant.queue, grant.epoch), std::move(grant));
  changed_.notify_all();
}

Result<StepGrant> StepTickets::AwaitMore(const std::string& queue, std::uint32_t epoch,
                                         std::uint64_t made, const Wait& wait) {
  return Await(
      Key(queue, epoch),
      [made](const StepGrant& grant) { return grant.granted > made || grant.closed; }, wait);
}

Result<StepGrant> StepTickets::AwaitClosed(const std::string& queue, std::uint32_t epoch,
                                           const Wait& wait) {
  return Await(
      Key(queue, epoch), [](const StepGrant& grant) { return grant.closed; }, wait);
}

Result<StepGrant> StepTickets::Await(const Key& key,
                                     const std::function<bool(const StepGrant&)>& enough,
                                     const Wait& wait) {
  std::unique_lock lock(mutex_);
  std::erase_if(grants_, [&](const auto& entry) {
    return entry.first.first == key.first && entry.first.second < key.second;
  });
  if (waiting_for_ != key) {
    waiting_for_ = key;
    log_at_ = Clock::Steady().Now() + kLogInterval;
  }
  for (;;) {
    const auto found = grants_.find(key);
    if (found != grants_.end() && enough(found->second)) {
      waiting_for_.reset();
      return found->second;
    }
    if (wait.deadline.passed()) {
      return Status(ErrorKind::kRetryLater, "the other nodes have not got their rows yet");
    }
    if (Clock::Steady().Now() >= log_at_) {
      log_at_ += kLogInterval;
      const std::vector<std::string> missing =
          found == grants_.end() ? std::vector<std::string>() : found->second.missing;
      LogWarning("feed: waiting for the other nodes to get rows of epoch {} of '{}'; {}",
                 key.second, key.first,
                 missing.empty()
                     ? "all of them have got some"
                     : fmt::format("no word of {}: do they read the same dataset, with the same "
                                   "remainder=?",
                                   fmt::join(missing, ", ")));
    }
    changed_.wait_for(lock, std::min<Clock::Duration>(wait.deadline.Remaining(), kCheckInterval));
    if (!wait.check) continue;
    lock.unlock();
    TFOS_RETURN_IF_ERROR(wait.check());
    lock.lock();
  }
}

}  // namespace tfos::feed
