#include "feed/node/session/feed_sessions.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::feed {

Result<std::shared_ptr<FeedSessions>> FeedSessions::Create(FeedServerOptions options,
                                                           RegionPool::Source source) {
  if (options.queues.empty() || options.region_bytes == 0 || options.region_bytes > kDataLimit ||
      options.memory_budget_bytes == 0) {
    return Status(ErrorKind::kBadInput, "a feed server needs a queue, memory and a region size");
  }
  options.region_bytes = std::min(options.region_bytes, options.memory_budget_bytes);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno(errno, "create an event descriptor");
  return std::shared_ptr<FeedSessions>(
      new FeedSessions(std::move(options), std::move(wake), std::move(source)));
}

FeedSessions::FeedSessions(FeedServerOptions options, UniqueFd wake, RegionPool::Source source)
    : options_(std::move(options)),
      wake_(std::move(wake)),
      pool_(std::move(source)),
      table_(options_),
      messages_(table_, options_.pickles) {}

// ---------------------------------------------------------------------------------------------
// The lock, and what is done without it.

FeedSessions::Turn::Turn(FeedSessions& sessions) : sessions_(sessions) { sessions_.mutex_.Lock(); }

FeedSessions::Turn::~Turn() { sessions_.GiveUpTurn(); }

void FeedSessions::GiveUpTurn() {
  Chores chores = table_.TakeChores();
  mutex_.Unlock();
  if (!chores.empty()) Do(std::move(chores));
}

void FeedSessions::Do(Chores chores) {
  std::vector<std::string> warnings;
  for (;;) {
    if (chores.consumers) changed_.NotifyAll();
    if (chores.listener) {
      const std::uint64_t one = 1;
      // Fails only when the counter is full, and then the thread will wake up anyway.
      [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
    }
    std::ranges::move(chores.warnings, std::back_inserter(warnings));
    // Before memory is got, as that may be this.
    for (std::shared_ptr<Region>& region : chores.reusable) {
      pool_.GiveBack(std::move(region), chores.spare);
    }
    chores.garbage.clear();
    if (chores.grants.empty() && chores.trims.empty()) break;
    std::vector<std::uint64_t> trimmed;
    for (const Chores::Trim& trim : chores.trims) {
      trimmed.push_back(trim.region->Trim(trim.used));
    }
    std::vector<Result<GrantedMemory>> granted;
    for (const Chores::Grant& grant : chores.grants) {
      granted.push_back(GetMemory(grant, chores.spare));
    }
    Chores next;
    {
      const MutexLock lock(mutex_);
      for (std::size_t i = 0; i < trimmed.size(); ++i) {
        table_.OnTrimmed(chores.trims[i].session, trimmed[i]);
      }
      for (std::size_t i = 0; i < granted.size(); ++i) {
        table_.OnGranted(chores.grants[i], std::move(granted[i]));
      }
      next = table_.TakeChores();
    }
    chores = std::move(next);
  }
  // Last, as the log may be slow.
  for (const std::string& warning : warnings) LogWarning("{}", warning);
}

Result<GrantedMemory> FeedSessions::GetMemory(const Chores::Grant& grant, std::uint64_t spare) {
  GrantedMemory memory;
  TFOS_ASSIGN_OR_RETURN(memory.region, pool_.Take(grant.bytes, spare));
  memory.region->read_position().store(0, std::memory_order_relaxed);
  if (grant.shared) {
    memory.pass.Reset(::fcntl(memory.region->fd(), F_DUPFD_CLOEXEC, 0));
    if (!memory.pass.valid()) return Status::FromErrno(errno, "pass on shared memory");
  }
  return memory;
}

// ---------------------------------------------------------------------------------------------
// For the node.

void FeedSessions::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  Status possible;
  {
    const Turn turn(*this);
    SessionTable::Queue* found = table_.FindQueue(queue);
    if (found == nullptr) return;
    possible = found->epochs.Check(epoch, 0);
    if (possible.ok()) {
      table_.EndEpochsBefore(*found, std::uint64_t{epoch} + 1);
      table_.CloseEpochsBefore(*found, std::uint64_t{epoch} + 1);
    }
  }
  // Each epoch takes a mark in the queue, so a number from a broken driver must not count.
  if (!possible.ok()) {
    LogWarning("the end of an epoch of queue '{}' is left out: {}", queue, possible.ToString());
  }
}

void FeedSessions::AbandonEpoch(std::string_view queue, std::uint32_t epoch, const JobId& job) {
  const Turn turn(*this);
  SessionTable::Queue* found = table_.FindQueue(queue);
  if (found != nullptr && found->epochs.Check(epoch, 0).ok()) {
    table_.AbandonEpoch(*found, epoch, job);
  }
}

void FeedSessions::EndJob(const JobId& job) {
  const Turn turn(*this);
  table_.ledger().EndJob(job);
}

void FeedSessions::EndFeed() {
  const Turn turn(*this);
  table_.EndFeed();
}

void FeedSessions::Terminate() {
  const Turn turn(*this);
  table_.Terminate();
}

void FeedSessions::Fail(std::string_view text) {
  const Turn turn(*this);
  table_.Fail(text);
}

void FeedSessions::Close() {
  const Turn turn(*this);
  table_.Close();
}

bool FeedSessions::terminated() const {
  const MutexLock lock(mutex_);
  return table_.phase() >= FeedPhase::kTerminated;
}

bool FeedSessions::closed() const {
  const MutexLock lock(mutex_);
  return table_.phase() == FeedPhase::kClosed;
}

FeedCounters FeedSessions::counters() const {
  const MutexLock lock(mutex_);
  FeedCounters snapshot = table_.counters();
  const Clock::TimePoint now = Clock::Steady().Now();
  snapshot.consumer_wait = table_.consumer_waits().Total(now);
  snapshot.feeder_wait = table_.feeder_waits().Total(now);
  snapshot.region_bytes_in_use = table_.bytes_in_use();
  snapshot.known_partitions = table_.known_partitions();
  snapshot.cache_memory_bytes = table_.cache_account()->memory_bytes();
  snapshot.cache_file_bytes = table_.cache_account()->file_bytes();
  return snapshot;
}

// ---------------------------------------------------------------------------------------------
// For the listener.

bool FeedSessions::Draining(FeederLink& link) {
  const Turn turn(*this);
  if (link.said_last_word()) messages_.AbandonData(link);
  return link.said_last_word();
}

Status FeedSessions::OnMessage(FeederLink& link, MessageType type,
                               std::span<const std::byte> body) {
  const Turn turn(*this);
  return messages_.OnMessage(link, type, body);
}

Result<std::span<std::byte>> FeedSessions::OnDataBegin(FeederLink& link,
                                                       std::span<const std::byte> body,
                                                       std::uint32_t bytes) {
  std::shared_ptr<Region> region;
  std::span<std::byte> target;
  {
    const Turn turn(*this);
    TFOS_ASSIGN_OR_RETURN(target, messages_.OnDataBegin(link, body, bytes));
    region = link.session->region;
  }
  // Without the lock, as it takes a while. A page that the system can't give ends a process that
  // touches it.
  const auto end = static_cast<std::uint64_t>(target.data() + bytes - region->memory().data());
  const Status there = region->Allocate(end);
  if (there.ok()) return target;
  return Status(there.kind(),
                fmt::format("node {} can't take a chunk of {} bytes; give its executor more "
                            "memory, or lower spark.tfos.feed.memory: {}",
                            options_.node_id, bytes, there.ToString()));
}

Status FeedSessions::OnDataEnd(FeederLink& link) {
  const Turn turn(*this);
  return messages_.OnDataEnd(link);
}

void FeedSessions::Refuse(FeederLink& link, const Status& reason) {
  const Turn turn(*this);
  ++table_.counters().refused_connections;
  messages_.AbandonData(link);
  table_.outgoing().PostLast(link, EncodeError(reason.message()));
  const SessionPointer session = link.session;
  if (session != nullptr && session->phase != SessionPhase::kOver) {
    table_.BreakOff(session, reason.message());
  }
}

void FeedSessions::CountRefusal() {
  const Turn turn(*this);
  ++table_.counters().refused_connections;
}

void FeedSessions::Say(FeederLink& link, std::string frame) {
  const Turn turn(*this);
  table_.outgoing().Post(link, {.bytes = std::move(frame)});
}

void FeedSessions::Gone(FeederLink& link, std::string_view why) {
  const Turn turn(*this);
  messages_.AbandonData(link);
  const SessionPointer session = link.session;
  if (session == nullptr) return;
  if (session->phase != SessionPhase::kOver) table_.BreakOff(session, why);
  session->link = nullptr;
}

std::vector<std::uint64_t> FeedSessions::TakeChanged() {
  // First: what is listed after this wakes the listener again.
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &ignored, sizeof(ignored));
  const Turn turn(*this);
  return table_.outgoing().TakeChanged();
}

std::vector<OutFrame> FeedSessions::TakePosted(FeederLink& link) {
  const Turn turn(*this);
  // A line without a session gets no credits.
  return table_.outgoing().Take(
      link, link.session == nullptr ? AcceptedBytes() : table_.Accepted(link.session->options.key));
}

FeedSessions::AfterSent FeedSessions::Sent(FeederLink& link, std::uint64_t result_bytes) {
  const Turn turn(*this);
  if (result_bytes > 0) {
    link.session->unread_result_bytes -= result_bytes;
    table_.WakeConsumers();
  }
  return {.more = !link.empty(), .last_word = link.said_last_word() && link.empty()};
}

/// Over TCP, closing with unread data would take the last word back, so its feeder goes first.
bool FeedSessions::Settled(const FeederLink& link) const {
  const MutexLock lock(mutex_);
  return link.empty() && (link.local || !link.said_last_word());
}

}  // namespace tfos::feed
