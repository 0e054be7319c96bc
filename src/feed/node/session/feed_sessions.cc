#include "feed/node/session/feed_sessions.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>
#include <variant>

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
      messages_(table_) {}

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
// For consumers.

Result<feed::Next> FeedSessions::Next(std::string_view queue_name, const Wait& wait) {
  // Before the lock: the last of an epoch that was kept goes with it, and that takes a while.
  std::optional<FeedQueue::Item> item;
  const Turn turn(*this);
  SessionTable::Queue* queue = table_.FindQueue(queue_name);
  if (queue == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'; it has {}",
                                                    queue_name, fmt::join(options_.queues, ", ")));
  }
  std::optional<Clock::TimePoint> waiting_since;
  Status status;
  while (!(item = queue->epochs.Take()) && !table_.NothingComes(*queue)) {
    if (!waiting_since) waiting_since = Clock::Steady().Now();
    status = changed_.WaitRound(mutex_, wait, "no chunk came");
    if (!status.ok()) break;
  }
  if (waiting_since) table_.counters().consumer_wait += Clock::Steady().Now() - *waiting_since;
  if (!status.ok()) return status;
  if (!item) return feed::Next(EndOfFeed{});
  return Hand(queue->epochs, *item);
}

Result<ChunkLoan> FeedSessions::NextPassed(std::string_view queue_name, std::uint32_t epoch,
                                           const Wait& wait) {
  const Turn turn(*this);
  SessionTable::Queue* queue = table_.FindQueue(queue_name);
  if (queue == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'", queue_name));
  }
  for (;;) {
    if (const auto passed = queue->passed.find(epoch); passed != queue->passed.end()) {
      const QueuedChunk chunk = passed->second.front();
      passed->second.pop_front();
      if (passed->second.empty()) queue->passed.erase(passed);
      return Lend(chunk);
    }
    if (table_.phase() == FeedPhase::kClosed) {
      return Status(ErrorKind::kReconnect, "the node closed");
    }
    TFOS_RETURN_IF_ERROR(changed_.WaitRound(mutex_, wait, "no rows of other nodes came"));
  }
}

Result<feed::Next> FeedSessions::Hand(Epochs& epochs, const FeedQueue::Item& item) {
  if (const auto* end = std::get_if<FeedQueue::SessionEnd>(&item)) {
    return feed::Next(
        PartitionEnd{.session = end->session, .partition = end->partition, .broken = end->broken});
  }
  if (const auto* end = std::get_if<FeedQueue::EpochEnd>(&item)) {
    return feed::Next(EndOfEpoch{.epoch = end->epoch});
  }
  Result<ChunkLoan> loan = std::holds_alternative<FeedQueue::CachedChunk>(item)
                               ? LendCached(std::get<FeedQueue::CachedChunk>(item))
                               : LendAndCache(epochs, std::get<QueuedChunk>(item));
  if (!loan.ok()) return loan.status();
  return feed::Next(std::move(*loan));
}

ChunkLoan FeedSessions::Lend(const QueuedChunk& chunk) {
  table_.CountOut(chunk);
  const FeedSession& session = *table_.Of(chunk.session);
  if (session.options.mode == Mode::kTrain) table_.counters().taken_items += chunk.items;
  table_.TellProgress();
  return ChunkLoan(shared_from_this(), chunk,
                   {.partition = session.options.key.partition,
                    .mode = session.options.mode,
                    .until_read = session.options.until_read});
}

Result<ChunkLoan> FeedSessions::LendCached(const FeedQueue::CachedChunk& chunk) {
  GiveUpTurn();
  Result<CachedEpoch::Chunk> read = chunk.epoch->Read(chunk.index);
  mutex_.Lock();
  if (!read.ok()) return CacheFailed(read.status());
  table_.counters().replayed_items += read->items;
  table_.TellProgress();
  return ChunkLoan(std::move(*read));
}

/// To consumers and feeders alike, now and later: rows of the epoch are lost to the node. Not a
/// reason to try again, whatever the file system says.
Status FeedSessions::CacheFailed(const Status& cause) {
  const Status status(
      ErrorKind::kBadInput,
      fmt::format("train(cache=...) can't keep the rows of the epoch: {}", cause.ToString()));
  table_.Fail(status.message());
  return status;
}

Result<ChunkLoan> FeedSessions::LendAndCache(Epochs& epochs, const QueuedChunk& chunk) {
  const std::shared_ptr<CachedEpoch> cache = table_.Of(chunk.session)->cache;
  ChunkLoan loan = Lend(chunk);
  if (cache == nullptr) return loan;
  epochs.BeginCopy();
  GiveUpTurn();
  const Status kept = cache->Add(loan.bytes(), loan.items());
  if (!kept.ok()) loan.Release();  // Takes the lock itself.
  mutex_.Lock();
  epochs.EndCopy();
  table_.WakeConsumers();
  if (!kept.ok()) return CacheFailed(kept);
  return loan;
}

Result<Delivery> FeedSessions::SendResult(std::uint64_t session_id, std::uint64_t rows,
                                          AlignedBuffer chunk, const Wait& wait) {
  if (chunk.size() > options_.result_limit_bytes) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a result of {} bytes for {} rows; at most {} bytes fit",
                              chunk.size(), rows, options_.result_limit_bytes));
  }
  const std::uint64_t bytes = chunk.size();
  OutFrame frame{.bytes = EncodeResultHead(rows, static_cast<std::uint32_t>(bytes)),
                 .result = std::move(chunk)};
  const Turn turn(*this);
  for (;;) {
    const SessionPointer session = table_.FindOpen(session_id);
    if (session == nullptr) return Delivery::kDiscarded;
    if (session->options.mode != Mode::kInference) {
      return Status(ErrorKind::kBadInput, "a training partition takes no results");
    }
    if (session->unread_result_bytes == 0 ||
        session->unread_result_bytes + bytes <= options_.result_queue_bytes) {
      session->unread_result_bytes += bytes;
      session->rows_answered += rows;
      table_.counters().result_rows += rows;
      table_.counters().result_bytes += bytes;
      table_.outgoing().Post(*session->link, std::move(frame));
      table_.TellProgress();
      return Delivery::kSent;
    }
    TFOS_RETURN_IF_ERROR(changed_.WaitRound(
        mutex_, wait,
        fmt::format("the feeder of partition {} took no results", session->options.key.partition)));
  }
}

Result<Delivery> FeedSessions::FinishSession(std::uint64_t session_id, std::uint64_t rows) {
  const Turn turn(*this);
  const SessionPointer session = table_.FindOpen(session_id);
  if (session == nullptr) return Delivery::kDiscarded;
  if (session->phase != SessionPhase::kEnding) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("partition {} was finished before its feeder ended it",
                              session->options.key.partition));
  }
  Outgoing& outgoing = table_.outgoing();
  if (session->rows_answered != rows) {
    const Status mismatch(
        ErrorKind::kBadInput,
        fmt::format("partition {} has {} rows, and {} results were given",
                    session->options.key.partition, rows, session->rows_answered));
    outgoing.PostLast(*session->link, EncodeError(mismatch.message()));
    table_.End(session, /*orderly=*/false);
    return mismatch;
  }
  outgoing.Post(*session->link,
                {.bytes = Encode(EndedMessage{.items = session->items, .rows = rows})});
  table_.End(session, /*orderly=*/true);
  return Delivery::kSent;
}

void FeedSessions::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  Status possible;
  {
    const Turn turn(*this);
    SessionTable::Queue* found = table_.FindQueue(queue);
    if (found == nullptr) return;
    possible = found->epochs.Check(epoch, 0);
    if (possible.ok()) table_.EndEpochsBefore(*found, std::uint64_t{epoch} + 1);
  }
  // Each epoch takes a mark in the queue, so a number from a broken driver must not count.
  if (!possible.ok()) {
    LogWarning("the end of an epoch of queue '{}' is left out: {}", queue, possible.ToString());
  }
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
  snapshot.region_bytes_in_use = table_.bytes_in_use();
  snapshot.cache_memory_bytes = table_.cache_account()->memory_bytes();
  snapshot.cache_file_bytes = table_.cache_account()->file_bytes();
  return snapshot;
}

// ---------------------------------------------------------------------------------------------
// For loans.

Result<PrivateView> FeedSessions::MapPrivately(const QueuedChunk& chunk) const {
  std::shared_ptr<Region> region;
  {
    const MutexLock lock(mutex_);
    region = table_.Of(chunk.session)->region;
  }
  return region->MapPrivately(chunk.bytes);
}

void FeedSessions::MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) {
  const Turn turn(*this);
  table_.RecordRead(table_.Of(session), number, rows);
}

void FeedSessions::Release(std::uint64_t session_id, std::uint64_t number) {
  const Turn turn(*this);
  const SessionPointer session = table_.Of(session_id);
  table_.RecordRead(session, number, ReadTracker::kAllRows);
  table_.ReleaseBlock(*session, number);
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
  const Turn turn(*this);
  return messages_.OnDataBegin(link, body, bytes);
}

void FeedSessions::OnDataEnd(FeederLink& link) {
  const Turn turn(*this);
  messages_.OnDataEnd(link);
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
  return table_.outgoing().Take(link, table_.counters().bytes);
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
