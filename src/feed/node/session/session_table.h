#ifndef TFOS_FEED_NODE_SESSION_SESSION_TABLE_H_
#define TFOS_FEED_NODE_SESSION_SESSION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time/deadline.h"
#include "base/time/wait_meter.h"
#include "feed/node/session/feed_session.h"
#include "feed/node/session/ledger.h"
#include "feed/node/session/memory_grants.h"
#include "feed/node/session/node_types.h"
#include "feed/node/session/outgoing.h"
#include "feed/queue/epochs.h"
#include "feed/queue/passed_chunks.h"
#include "feed/wire/region.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Where a node's feed is. It only goes on, never back.
enum class FeedPhase {
  kOpen,        ///< Partitions may be opened.
  kOver,        ///< Those that are open may go on.
  kTerminated,  ///< The consumers want no more: all partitions were stopped.
  kFailed,      ///< The node failed, and tells every feeder why.
  kClosed,      ///< Nobody is told anything any more.
};

/// What a change leaves to be done once the lock is free, as it may take long.
struct Chores {
  /// Memory to be got for a session.
  struct Grant {
    std::uint64_t session = 0;
    std::uint64_t bytes = 0;
    bool shared = false;  ///< Its feeder gets a descriptor of it.
  };
  /// A region of which only the beginning is used any more.
  struct Trim {
    std::uint64_t session = 0;
    std::shared_ptr<Region> region;
    std::uint64_t used = 0;
  };

  bool listener = false;   ///< Wake it: something is to be said.
  bool consumers = false;  ///< Wake them: something they wait for has changed.
  std::vector<std::shared_ptr<Region>> reusable;
  std::uint64_t spare = 0;  ///< Memory that regions may take which nobody uses.
  std::vector<Grant> grants;
  std::vector<Trim> trims;
  std::vector<std::string> warnings;                 ///< For the log.
  std::vector<std::shared_ptr<const void>> garbage;  ///< To be freed.

  bool empty() const {
    return !listener && !consumers && reusable.empty() && grants.empty() && trims.empty() &&
           warnings.empty() && garbage.empty();
  }
};

/// The memory that a grant was about, as the session's feeder gets it.
struct GrantedMemory {
  std::shared_ptr<Region> region;
  UniqueFd pass;  ///< For its feeder, if that shares memory.
};

/// The partitions that are fed to a node: their sessions and phases, the chunks that wait, the
/// memory, and what was accepted. It decides; what takes long it leaves as chores.
///
/// Owner and lifetime: FeedSessions; borrows the links. Threads: one at a time: FeedSessions' lock.
/// It makes no system call. Errors: as the methods say.
class SessionTable {
 public:
  using SessionPointer = std::shared_ptr<FeedSession>;

  struct Queue {
    Epochs epochs;
    std::size_t open_sessions = 0;
    std::uint64_t closed_before = 0;  ///< Nothing comes any more of epochs before this one.
    PassedChunks passed = {};
  };

  explicit SessionTable(const FeedServerOptions& options);

  FeedPhase phase() const { return phase_; }
  /// Why the node failed, while that is what feeders are told.
  const std::string& failure() const { return failure_; }
  FeedCounters& counters() { return counters_; }
  const FeedCounters& counters() const { return counters_; }
  /// Of consumers for chunks. Each of them tells it.
  WaitMeter& consumer_waits() { return consumer_waits_; }
  const WaitMeter& consumer_waits() const { return consumer_waits_; }
  /// Of feeders for memory.
  const WaitMeter& feeder_waits() const { return feeder_waits_; }
  Outgoing& outgoing() { return outgoing_; }
  Ledger& ledger() { return ledger_; }
  /// Null: there is no such queue.
  Queue* FindQueue(std::string_view name);
  Queue& QueueOf(const FeedSession& session);
  /// Null when the session is over.
  SessionPointer FindOpen(std::uint64_t id) const;
  /// The session of a chunk that has not been released.
  const SessionPointer& Of(std::uint64_t id) const { return sessions_.find(id)->second; }
  /// Consumers of the queue get nothing more.
  bool NothingComes(const Queue& queue) const;

  // The feed.
  void EndEpochsBefore(Queue& queue, std::uint64_t epoch);
  /// The driver says that all rows of epochs before this one have been fed.
  void CloseEpochsBefore(Queue& queue, std::uint64_t epoch);
  /// The driver says that a job which fed an epoch was interrupted.
  void AbandonEpoch(Queue& queue, std::uint32_t epoch, const JobId& job);
  void EndFeed();
  void Terminate();
  void Fail(std::string_view text);
  void Close();

  // Sessions. `options` were checked.
  void Open(FeederLink& link, Queue& queue, SessionOptions options);
  void RequestMemory(FeedSession& session, std::uint64_t bytes);
  /// A chore is done.
  void OnGranted(const Chores::Grant& grant, Result<GrantedMemory> memory);
  void OnTrimmed(std::uint64_t session, std::uint64_t bytes);
  void End(SessionPointer session, bool orderly);
  void BreakOff(const SessionPointer& session, std::string_view why);
  /// All that a training partition brought was accepted, and read if it lasts until then.
  void EndTraining(const SessionPointer& session);
  /// Whether all rows of such a session were taken before, and its giver did not hear that.
  static bool HasPassed(const Queue& queue, const SessionOptions& options);
  /// Whether the attempt may bring the partition: then no other one does any more. Else that was
  /// said to it, and was the last word.
  bool TakesOver(FeederLink& link, const PartitionKey& key, AttemptId attempt);
  /// The region is no longer the session's. No chunk of it is in use.
  void GiveRegionBack(FeedSession& session, bool reusable);

  // Chunks.
  /// How much of the key's job and epoch, whatever the partition, and of all.
  AcceptedBytes Accepted(const PartitionKey& key) const {
    return {.of_epoch = ledger_.Bytes(key.job, key.epoch), .of_all = counters_.bytes};
  }
  void Accept(FeedSession& session, QueuedChunk chunk);
  /// A consumer takes it.
  void CountOut(const QueuedChunk& chunk);
  void RecordRead(const SessionPointer& session, std::uint64_t number, std::uint64_t rows);
  void ReleaseBlock(FeedSession& session, std::uint64_t number);

  /// For feeders that wait for others: by what they see of their own partition, the node is idle.
  void TellProgress();
  void WakeConsumers() { chores_.consumers = true; }

  /// What is to be done once the lock is free. To be asked before that is.
  Chores TakeChores();
  std::uint64_t bytes_in_use() const { return grants_.in_use(); }
  std::size_t known_partitions() const { return ledger_.partitions(); }
  const std::shared_ptr<CacheAccount>& cache_account() const { return cache_account_; }

 private:
  /// Says `last_frame` to all feeders and drops what waits.
  void StopAll(const std::string& last_frame);
  void DropQueued();
  /// Gives up what its feeder brought and no consumer has taken.
  void Withdraw(FeedSession& session);
  /// All rows that another node passes on are here: from now on this one has them.
  void TakePassed(FeedSession& session);
  void ReleaseAll(const std::vector<QueuedChunk>& chunks);
  void Retire(FeedSession& session);
  void GrantMemory();
  /// The number of those that wait for memory has changed.
  void CountFeederWaits();
  /// Which rows of a chunk an earlier cluster has trained on; null: none.
  std::shared_ptr<const ItemRanges> TrainedBefore(const FeedSession& session,
                                                  const QueuedChunk& chunk) const;

  const FeedServerOptions& options_;
  const std::shared_ptr<CacheAccount> cache_account_;
  FeedPhase phase_ = FeedPhase::kOpen;
  std::string failure_;
  std::map<std::string, Queue, std::less<>> queues_;
  std::map<std::uint64_t, SessionPointer> sessions_;  ///< Until over and all chunks released.
  std::uint64_t next_session_ = 1;
  MemoryGrants grants_;
  Outgoing outgoing_;
  Ledger ledger_;
  std::size_t forgotten_told_ = 0;  ///< Partitions that it has forgotten, of which the log knows.
  FeedCounters counters_;
  WaitMeter consumer_waits_;
  WaitMeter feeder_waits_;
  std::optional<Clock::TimePoint> progress_told_;
  Chores chores_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_SESSION_TABLE_H_
