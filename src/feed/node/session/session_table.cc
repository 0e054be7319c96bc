#include "feed/node/session/session_table.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/format.h"
#include "feed/wire/frame.h"

namespace tfos::feed {
namespace {

/// How often feeders hear at most that the program consumes. Their timeouts are longer.
constexpr std::chrono::seconds kProgressInterval{1};

/// Of the rows that a session of mode kPass brings.
PassedChunks::Origin OriginOf(const SessionOptions& options) {
  return {.epoch = options.key.epoch, .giver = options.key.partition, .number = options.attempt};
}

}  // namespace

SessionTable::SessionTable(const FeedServerOptions& options)
    : options_(options),
      cache_account_(std::make_shared<CacheAccount>(options.cache_memory_bytes)),
      grants_(options.memory_budget_bytes) {
  for (const std::string& queue : options_.queues) queues_.try_emplace(queue);
}

SessionTable::Queue* SessionTable::FindQueue(std::string_view name) {
  const auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : &found->second;
}

SessionTable::Queue& SessionTable::QueueOf(const FeedSession& session) {
  return queues_.find(session.options.queue)->second;
}

SessionTable::SessionPointer SessionTable::FindOpen(std::uint64_t id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() || it->second->phase == SessionPhase::kOver ? nullptr : it->second;
}

bool SessionTable::NothingComes(const Queue& queue) const {
  if (phase_ >= FeedPhase::kTerminated) return true;
  return phase_ == FeedPhase::kOver && queue.open_sessions == 0 && queue.epochs.settled();
}

Chores SessionTable::TakeChores() {
  if (const std::size_t forgotten = ledger_.forgotten(); forgotten > forgotten_told_) {
    chores_.warnings.push_back(fmt::format(
        "feed: forgot what came of {} partition{}, as too many are fed at the same time: "
        "if Spark runs one of these tasks again, its rows come twice",
        forgotten - forgotten_told_, forgotten - forgotten_told_ == 1 ? "" : "s"));
    forgotten_told_ = forgotten;
  }
  if (outgoing_.TakeNews()) chores_.listener = true;
  if (chores_.empty()) return {};
  chores_.spare = grants_.spare();
  return std::exchange(chores_, {});
}

// ---------------------------------------------------------------------------------------------
// The feed.

void SessionTable::EndEpochsBefore(Queue& queue, std::uint64_t epoch) {
  if (phase_ >= FeedPhase::kTerminated) return;
  queue.epochs.EndBefore(epoch);
  WakeConsumers();
}

void SessionTable::CloseEpochsBefore(Queue& queue, std::uint64_t epoch) {
  queue.closed_before = std::max(queue.closed_before, epoch);
}

void SessionTable::AbandonEpoch(Queue& queue, std::uint32_t epoch, const JobId& job) {
  if (auto cache = queue.epochs.Abandon(epoch, job)) chores_.garbage.push_back(std::move(cache));
  // What is still in the queue of the job is not to be copied any more.
  for (const auto& [id, session] : sessions_) {
    const PartitionKey& key = session->options.key;
    if (key.job != job || key.epoch != epoch || session->cache == nullptr) continue;
    chores_.garbage.push_back(std::exchange(session->cache, nullptr));
  }
}

void SessionTable::EndFeed() {
  phase_ = std::max(phase_, FeedPhase::kOver);
  for (const std::uint64_t id : grants_.ForgetOpening()) {
    const SessionPointer session = Of(id);
    outgoing_.PostLast(*session->link, Encode(OpenedMessage{.status = OpenStatus::kFeedOver}));
    End(session, /*orderly=*/true);
  }
  WakeConsumers();
}

void SessionTable::Terminate() {
  if (phase_ >= FeedPhase::kTerminated) return;
  phase_ = FeedPhase::kTerminated;
  StopAll(EncodeStop());
}

void SessionTable::Fail(std::string_view text) {
  if (phase_ >= FeedPhase::kFailed) return;
  phase_ = FeedPhase::kFailed;
  failure_ = text;
  StopAll(EncodeError(text));
}

void SessionTable::Close() {
  phase_ = FeedPhase::kClosed;
  std::vector<SessionPointer> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  for (const SessionPointer& session : all) End(session, /*orderly=*/false);
  DropQueued();
  chores_.listener = true;
}

void SessionTable::StopAll(const std::string& last_frame) {
  std::vector<SessionPointer> open;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) open.push_back(session);
  }
  for (const SessionPointer& session : open) {
    outgoing_.PostLast(*session->link, last_frame);
    End(session, /*orderly=*/false);
  }
  DropQueued();
}

void SessionTable::DropQueued() {
  for (auto& [name, queue] : queues_) {
    FeedQueue::Dropped dropped = queue.epochs.Clear();
    ReleaseAll(dropped.chunks);
    ReleaseAll(queue.passed.Clear());
    for (auto& cache : dropped.caches) chores_.garbage.push_back(std::move(cache));
  }
  WakeConsumers();
}

// ---------------------------------------------------------------------------------------------
// Sessions and their memory.

void SessionTable::Open(FeederLink& link, Queue& queue, SessionOptions options) {
  const std::uint64_t bytes = options.region_bytes == 0
                                  ? options_.region_bytes
                                  : std::min(options.region_bytes, options_.region_bytes);
  auto session = std::make_shared<FeedSession>();
  session->id = next_session_++;
  session->link = &link;
  session->options = std::move(options);
  Epochs::Place place = queue.epochs.CacheFor(session->options, [&](CachePlace where) {
    return std::make_shared<CachedEpoch>(where, cache_account_, options_.cache_directory);
  });
  session->cache = std::move(place.cache);
  if (place.dropped != nullptr) chores_.garbage.push_back(std::move(place.dropped));
  sessions_.emplace(session->id, session);
  link.session = session;
  if (session->options.mode == Mode::kTrain) ledger_.BeginSession(session->options.key);
  ++queue.open_sessions;
  ++counters_.open_sessions;
  RequestMemory(*session, bytes);
}

void SessionTable::RequestMemory(FeedSession& session, std::uint64_t bytes) {
  grants_.Ask(
      {.session = session.id,
       .bytes = bytes,
       .growing = session.phase == SessionPhase::kGrowing || session.options.mode == Mode::kPass});
  CountFeederWaits();
  GrantMemory();
}

void SessionTable::CountFeederWaits() {
  feeder_waits_.Set(grants_.waiting(), Clock::Steady().Now());
}

void SessionTable::GrantMemory() {
  // No other inference session is consumed before the current one has ended.
  // Rows that are passed on go beyond the budget: it may be full of the next epoch's, which wait
  // for these.
  const auto is_current = [this](std::uint64_t id) {
    const FeedSession& session = *Of(id);
    return session.options.mode == Mode::kPass || QueueOf(session).epochs.chunks().current() == id;
  };
  while (const std::optional<MemoryGrants::Request> request = grants_.Grant(is_current)) {
    chores_.grants.push_back({.session = request->session,
                              .bytes = request->bytes,
                              .shared = Of(request->session)->link->local});
  }
  CountFeederWaits();
}

void SessionTable::OnGranted(const Chores::Grant& grant, Result<GrantedMemory> memory) {
  const SessionPointer session = FindOpen(grant.session);
  if (session == nullptr || !memory.ok()) {
    grants_.Recount(grant.bytes, 0);
    if (session != nullptr) {
      const std::string why = memory.status().Annotate("get memory for the feeder").ToString();
      outgoing_.PostLast(*session->link, EncodeError(why));
      BreakOff(session, why);
    } else if (memory.ok()) {  // It ended meanwhile, and its feeder never saw the memory.
      chores_.reusable.push_back(std::move(memory->region));
    }
    GrantMemory();
    return;
  }
  session->region = std::move(memory->region);
  session->counted_bytes = session->region->bytes();
  grants_.Recount(grant.bytes, session->counted_bytes);
  session->ring = Ring(session->region->bytes());
  session->reads = {};
  const bool opening = session->phase == SessionPhase::kWaiting;
  if (opening && session->options.mode == Mode::kInference) {
    QueueOf(*session).epochs.chunks().AddSession(session->id, session->options.key.partition);
  }
  session->phase = SessionPhase::kOpen;
  outgoing_.Post(
      *session->link,
      {.bytes = opening ? Encode(OpenedMessage{.status = OpenStatus::kGoOn,
                                               .result_limit = options_.result_limit_bytes,
                                               .region_bytes = session->region->bytes()})
                        : EncodeRegion(session->region->bytes()),
       .pass = std::move(memory->pass)});
}

void SessionTable::OnTrimmed(std::uint64_t id, std::uint64_t bytes) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;  // Its region was given back as a whole.
  FeedSession& session = *it->second;
  session.being_trimmed = false;
  grants_.Recount(session.counted_bytes, bytes);
  session.counted_bytes = bytes;
  GrantMemory();
}

void SessionTable::End(SessionPointer session, bool orderly) {
  if (session->phase == SessionPhase::kOver) return;
  Queue& queue = QueueOf(*session);
  const bool waiting = session->phase == SessionPhase::kWaiting;
  session->phase = SessionPhase::kOver;
  session->orderly = orderly;
  grants_.Forget(session->id);
  CountFeederWaits();
  if (session->options.mode == Mode::kTrain) ledger_.EndSession(session->options.key);
  --queue.open_sessions;
  --counters_.open_sessions;
  // What a broken training session brought was accepted and is still consumed. The rows of a
  // broken inference session are asked again by Spark.
  if (!orderly && !waiting && session->options.mode == Mode::kInference) {
    ReleaseAll(queue.epochs.chunks().BreakSession(session->id));
  }
  // A feeder that waits until all is read brings the rest again, here or elsewhere.
  if (!orderly && session->options.until_read) Withdraw(*session);
  // So does a node whose rows were not all here.
  ReleaseAll(std::exchange(session->passed, {}));
  Retire(*session);
  WakeConsumers();
}

void SessionTable::Withdraw(FeedSession& session) {
  const std::vector<QueuedChunk> chunks =
      QueueOf(session).epochs.chunks().WithdrawTrain(session.id);
  for (const QueuedChunk& chunk : chunks) {
    ledger_.Remove(session.options.key, {chunk.first, chunk.first + chunk.items});
    counters_.withdrawn_items += chunk.items;
  }
  ReleaseAll(chunks);
}

void SessionTable::BreakOff(const SessionPointer& session, std::string_view why) {
  // A feeder asks several nodes, and goes from the others when one has served it. What goes before
  // it has brought a row takes nothing along, even if it had memory by then.
  const bool has_begun = session->phase == SessionPhase::kEnding || session->items > 0 ||
                         session->options.mode != Mode::kTrain;
  if (session->phase != SessionPhase::kWaiting && has_begun) {
    chores_.warnings.push_back(fmt::format("feed: partition {} (task attempt {}) broke off: {}",
                                           session->options.key.partition, session->options.attempt,
                                           why));
    ++counters_.broken_sessions;
  }
  End(session, /*orderly=*/false);
}

void SessionTable::TakePassed(FeedSession& session) {
  PassedChunks& passed = QueueOf(session).passed;
  for (const QueuedChunk& chunk : std::exchange(session.passed, {})) {
    if (!passed.Add(OriginOf(session.options), chunk)) ReleaseAll({chunk});
  }
}

bool SessionTable::HasPassed(const Queue& queue, const SessionOptions& options) {
  return options.attempt != 0 && queue.passed.Has(OriginOf(options));
}

void SessionTable::EndTraining(const SessionPointer& session) {
  TakePassed(*session);
  outgoing_.Post(*session->link, {.bytes = Encode(EndedMessage{.items = session->items})});
  End(session, /*orderly=*/true);
  if (session->region == nullptr) return;
  // Chunks that are still in use keep it. Many small partitions must not fill the budget with
  // memory that they never used.
  session->being_trimmed = true;
  chores_.trims.push_back(
      {.session = session->id, .region = session->region, .used = session->ring.used()});
}

bool SessionTable::TakesOver(FeederLink& link, const PartitionKey& key, AttemptId attempt) {
  if (const std::optional<AttemptId> later = ledger_.TakenOverBy(key, attempt)) {
    outgoing_.PostLast(link, EncodeSuperseded(*later));
    return false;
  }
  const auto old = std::ranges::find_if(sessions_, [&](const auto& entry) {
    const FeedSession& session = *entry.second;
    return session.phase != SessionPhase::kOver && session.options.mode == Mode::kTrain &&
           session.options.key == key && session.options.attempt != attempt;
  });
  if (old != sessions_.end()) {  // There is never more than one.
    const SessionPointer session = old->second;
    outgoing_.PostLast(*session->link, EncodeSuperseded(attempt));
    BreakOff(session, fmt::format("task attempt {} at the same partition took over", attempt));
  }
  return true;
}

void SessionTable::GiveRegionBack(FeedSession& session, bool reusable) {
  grants_.Recount(std::exchange(session.counted_bytes, 0), 0);
  if (reusable) {
    chores_.reusable.push_back(std::move(session.region));
  } else {
    chores_.garbage.push_back(std::move(session.region));
  }
  session.region = nullptr;
}

void SessionTable::Retire(FeedSession& session) {
  if (session.phase != SessionPhase::kOver || session.ring.in_flight() > 0) return;
  if (session.region != nullptr) {
    // What a feeder reads there when it finds this node dead must not be of another session, and
    // what is just being trimmed must not hold another session's chunks.
    GiveRegionBack(session,
                   session.orderly && !session.options.until_read && !session.being_trimmed);
  }
  // With its cache, perhaps the last of that epoch.
  const auto it = sessions_.find(session.id);
  if (it != sessions_.end()) {
    chores_.garbage.push_back(std::move(it->second));
    sessions_.erase(it);
  }
  GrantMemory();
}

// ---------------------------------------------------------------------------------------------
// Chunks.

std::shared_ptr<const ItemRanges> SessionTable::TrainedBefore(const FeedSession& session,
                                                              const QueuedChunk& chunk) const {
  const PartitionKey& key = session.options.key;
  if (!session.options.without_trained || key.epoch != 0 ||
      session.options.queue != options_.trained_queue) {
    return nullptr;
  }
  const AcceptedChunk accepted{.items = {chunk.first, chunk.first + chunk.items},
                               .checksum = chunk.checksum};
  // One for each node of the earlier cluster, or a few.
  for (const PartlyTrained& known : options_.trained_before) {
    if (known.partition == key.partition && known.chunk == accepted) {
      return std::make_shared<const ItemRanges>(known.rows);
    }
  }
  return nullptr;
}

void SessionTable::Accept(FeedSession& session, QueuedChunk chunk) {
  session.items += chunk.items;
  counters_.items += chunk.items;
  ++counters_.chunks;
  // A sample makes nobody a node that has rows.
  const Mode mode = session.options.mode;
  if (!IsSample(chunk) && mode != Mode::kPass) counters_.bytes += chunk.bytes.size();
  ++counters_.queued_chunks;
  counters_.queued_bytes += chunk.bytes.size();
  Queue& queue = QueueOf(session);
  if (mode == Mode::kPass) {
    session.passed.push_back(chunk);
  } else if (mode == Mode::kTrain) {
    counters_.train_items += chunk.items;
    if (session.options.until_read) session.reads.Accept();
    if (!IsSample(chunk)) counters_.rows_read_elsewhere += chunk.rows_read;
    chunk.trained_before = TrainedBefore(session, chunk);
    if (chunk.trained_before != nullptr) {
      counters_.rows_read_elsewhere += chunk.trained_before->items();
    }
    ledger_.Add(session.options.key,
                {.items = {chunk.first, chunk.first + chunk.items}, .checksum = chunk.checksum},
                chunk.bytes.size());
    queue.epochs.chunks().PushTrain(chunk);
  } else {
    queue.epochs.chunks().PushInference(chunk);
  }
  WakeConsumers();
}

void SessionTable::CountOut(const QueuedChunk& chunk) {
  --counters_.queued_chunks;
  counters_.queued_bytes -= chunk.bytes.size();
}

void SessionTable::RecordRead(const SessionPointer& session, std::uint64_t number,
                              std::uint64_t rows) {
  if (!session->options.until_read || session->phase == SessionPhase::kOver) return;
  session->reads.Read(number, rows);
  session->region->read_position().store(session->reads.position().Packed(),
                                         std::memory_order_release);
  if (session->phase == SessionPhase::kEnding && session->reads.all_read()) EndTraining(session);
}

void SessionTable::ReleaseAll(const std::vector<QueuedChunk>& chunks) {
  for (const QueuedChunk& chunk : chunks) {
    CountOut(chunk);
    const SessionPointer session = Of(chunk.session);
    ReleaseBlock(*session, chunk.number);
  }
}

void SessionTable::ReleaseBlock(FeedSession& session, std::uint64_t number) {
  const std::size_t freed = session.ring.Release(number);
  if (freed == 0) return;
  if (session.phase == SessionPhase::kOver) {
    Retire(session);
  } else {
    outgoing_.AddCredits(*session.link, static_cast<std::uint32_t>(freed));
  }
}

void SessionTable::TellProgress() {
  const Clock::TimePoint now = options_.progress_clock->Now();
  if (progress_told_ && now - *progress_told_ < kProgressInterval) return;
  progress_told_ = now;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) outgoing_.PostProgress(*session->link);
  }
}

}  // namespace tfos::feed
