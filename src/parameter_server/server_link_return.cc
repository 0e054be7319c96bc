#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "parameter_server/server_link.h"

// What a link does where the server was lost and comes again: docs/parameter-servers.md,
// "Failures".

namespace tfos::parameter_server {
namespace {

/// Before another look for a server that was there and is not any more, or that refuses the
/// handshake: another process may have the port.
constexpr std::chrono::milliseconds kPause{100};

void Pause() { ::poll(nullptr, 0, static_cast<int>(kPause.count())); }

}  // namespace

bool ServerLink::ComesAgain(const Status& why) const {
  return options_.find && !why.ok() && why.kind() == ErrorKind::kReconnect && !aborted_;
}

bool ServerLink::HasMoved() const {
  if (!options_.find) return false;
  const ServerAddress now = options_.find();
  return now.address != server_.address || now.port != server_.port;
}

Status ServerLink::CheckOnThread() {
  if (aborted_) return {ErrorKind::kReconnect, "this end was closed"};
  // The lost one need not have ended: a process that stands still keeps its connections.
  if (HasMoved()) return {ErrorKind::kReconnect, "another one has come in its place"};
  if (lost_ && Clock::Steady().Now() >= say_at_) {
    say_at_ += options_.stall_after;
    TellOfStall();
  }
  return {};
}

Status ServerLink::OpenFirst() {
  while (true) {
    Status opened = ConnectSocket();
    if (opened.ok()) opened = OpenStore({});
    if (opened.ok() || !ComesAgain(opened) || options_.wait.deadline.passed()) return opened;
    Pause();
  }
}

Status ServerLink::GoOnFrom(const Opened& opened) {
  resume_at_ = 0;
  if (sent_ == outgoing_.size() && opened.pushes == pushes_ + 1 && opened.combined == 0) {
    // Only the answer was lost, or has not come yet. It is asked for again: slower workers may
    // hold it up.
    combined_ = false;
    resume_at_ = outgoing_.size();
    return {};
  }
  // Another server, or one that has forgotten this link, knows of no pushes.
  const bool knows_nothing = opened.pushes == 0 && opened.combined == 0;
  if (!knows_nothing && (opened.pushes != pushes_ || opened.combined > sent_)) {
    return {ErrorKind::kBug, "the server says that it has more than was pushed"};
  }
  pushes_ = opened.pushes;
  resume_at_ = opened.combined;
  return {};
}

Status ServerLink::AwaitFilled() {
  const MutexLock lock(mutex_);
  while (!closing_ && filled_ < outgoing_.size()) changed_.Wait(mutex_);
  if (closing_) return {ErrorKind::kReconnect, "this end was closed"};
  return {};
}

Status ServerLink::AwaitReturn(const Job& job, const Status& why) {
  // The copy changes until then.
  if (job.push) TFOS_RETURN_IF_ERROR(AwaitFilled());
  LogWarning("{} has lost parameter server {}, and waits until it comes again: {}",
             options_.open.name, server_.name, why.ToString());
  lost_ = true;
  gave_ = false;
  options_.open.starts = false;  // It may have done so, and others have gone on from there.
  BeginToWait();
  say_at_ = began_at_ + options_.stall_after;
  Status opened = {ErrorKind::kReconnect, "it has not come yet"};
  while (!opened.ok()) {
    opened = ConnectSocket();
    // A handshake may fail with another process that has got the port of the lost one.
    const bool reached = opened.ok();
    if (reached) opened = OpenStore(job.copy);
    if (aborted_ || (!opened.ok() && reached && !ComesAgain(opened))) return opened;
    if (!opened.ok()) Pause();
  }
  lost_ = false;
  BeginToWait();
  if (gave_) combined_ = job.copy.has_push;
  LogInfo("{} goes on with parameter server {}, at version {}{}", options_.open.name, server_.name,
          version(), gave_ ? ", which has its values" : "");
  return {};
}

Status ServerLink::Give(const Copy& copy) {
  TFOS_RETURN_IF_ERROR(WriteShare(0, copy.values));
  if (has_slots_) {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      TFOS_RETURN_IF_ERROR(WriteShare(static_cast<std::uint8_t>(slot + 1), slots_[slot]));
    }
  }
  TFOS_RETURN_IF_ERROR(SendText(EncodeVersion(MessageType::kStart, copy.version)));
  TFOS_ASSIGN_OR_RETURN(version_, AwaitVersion(MessageType::kStarted));
  gave_ = true;
  return {};
}

Status ServerLink::CopySlots() {
  const std::size_t slots = options_.open.rule.slots();
  const Clock::TimePoint now = Clock::Steady().Now();
  if (!options_.find || slots == 0 || now < copy_at_) return {};
  slots_.resize(slots);
  std::vector<std::byte> piece;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    std::vector<std::byte>& to = slots_[slot];
    to.resize(options_.share_bytes);
    // In pieces that are whole: a server that dies must not leave halves of numbers in the copy.
    for (std::size_t begin = 0; begin < to.size(); begin += kMostDataBytes) {
      piece.resize(std::min(kMostDataBytes, to.size() - begin));
      TFOS_RETURN_IF_ERROR(ReadShare(static_cast<std::uint8_t>(slot + 1), begin, piece));
      std::ranges::copy(piece, to.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
  has_slots_ = true;
  copy_at_ = Clock::Steady().Now() + options_.copy_interval;
  return {};
}

}  // namespace tfos::parameter_server
