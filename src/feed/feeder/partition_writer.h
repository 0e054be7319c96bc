#ifndef TFOS_FEED_FEEDER_PARTITION_WRITER_H_
#define TFOS_FEED_FEEDER_PARTITION_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/deadline.h"
#include "base/time/wait.h"
#include "feed/feeder/feed_balancer.h"
#include "feed/feeder/feed_client.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

struct PartitionWriterOptions {
  // Behaviour.
  /// The nodes that may be fed, in order of preference.
  std::vector<Endpoint> endpoints;
  Secret token;
  SessionOptions session;
  /// Longest time without a word of any node that may be fed, also for connecting.
  std::chrono::milliseconds progress_timeout{600'000};
  /// Ends waits early.
  InterruptCheck check = {};

  // Performance.
  /// Nodes of other hosts that one feeder feeds at once, those that have got least; more of them
  /// one by one, if they lag behind or nothing else helps.
  std::size_t most_remote_nodes = 2;
};

/// Feeds one partition into the nodes: the sending end above FeedClient.
///
/// Training: every chunk goes to whichever node of this host has the most room, so that nodes which
/// work at different speeds finish together; over TCP to one of another host when that has got much
/// less, when those here have had no room for a while, or when there is none here. Every attempt
/// asks all nodes which items they have already got from earlier ones.
/// A node that has got nothing yet is waited for before others that have get another chunk, and one
/// that has got nothing when the partition ends is sent a sample of its rows.
/// With `session.until_read` the partition ends when the programs have read it, and a node that is
/// lost before costs nothing: what its program had not read goes to the others.
/// A chunk that is larger than the nodes' regions goes through a session of its own, while this
/// feeder holds nothing else: two feeders that each hold memory of one node and wait for more of
/// the other would wait for ever.
/// Inference: one node takes the whole partition, as its results come back in order.
///
/// Owner and lifetime: owns its connections. After a failed call only destruction is useful.
/// Threads: one at a time.
/// Errors: those of FeedClient. Units: bytes and items.
class PartitionWriter {
 public:
  /// Connects and opens the partition.
  static Result<std::unique_ptr<PartitionWriter>> Open(PartitionWriterOptions options);

  /// Items that earlier attempts delivered: the caller skips them. Not always the first ones: a
  /// connection that broke may have lost a chunk when a later one had reached another node.
  const ItemRanges& delivered() const { return delivered_; }

  /// Room for one chunk; empty when all nodes have stopped. Waits until a node has room.
  Result<std::span<std::byte>> Reserve(std::size_t bytes);
  /// Hands the reserved chunk over; it holds these items of the partition.
  Status Commit(std::size_t bytes, const ItemRange& items);

  /// Inference: as FeedClient::TakeResult.
  Result<std::optional<ResultChunk>> TakeResult(bool block);

  /// Inference: says that the partition is complete. Idempotent.
  Status End();
  /// End, then waits until the nodes have taken (train), read (train, until_read) or answered
  /// (inference) everything. `accepted_items` are those that this writer sent.
  Result<Ended> Finish();

  /// True when no node wants more rows.
  bool stopped() const;

  /// Items of chunks that were sent a second time, as a node was lost before its program had read
  /// them to the end.
  std::uint64_t moved_items() const { return moved_items_; }

 private:
  struct Node {
    Endpoint endpoint;
    std::unique_ptr<FeedClient> client;  ///< Null while a large chunk goes through another node.
    bool remote = false;                 ///< On another host.
    bool asked = false;                  ///< For memory.
    bool fed = false;                    ///< It may have got chunks.
    std::uint64_t free_bytes = 0;        ///< When it was last looked at.
    std::uint64_t capacity_bytes = 0;    ///< Of its region, once known.
    /// What it has accepted of all feeders, as far as this one knows.
    std::uint64_t accepted_bytes = 0;
    bool stopped = false;  ///< It wants no more rows; for when it has no client any more.
    bool silent = false;   ///< It does not even say how much it has: nothing waits for it.

    /// It was asked for memory and has not answered, and it has no row at all.
    bool beginning() const {
      return asked && !silent && accepted_bytes == 0 && wants_rows() && !open();
    }
    bool wants_rows() const { return !stopped && (client == nullptr || !client->stopped()); }
    bool open() const { return wants_rows() && client != nullptr && client->opened(); }
  };

  explicit PartitionWriter(PartitionWriterOptions options) : options_(std::move(options)) {}

  enum class Where { kThisHost, kAnywhere };

  /// Training: connects to the nodes and asks all what they have.
  Status FindNodes();
  /// Asks the node what it has of the partition, and remembers how much it has of all.
  Result<Counted> Count(Node& node);
  /// Training: asks the nodes of this host, or all when there is none, for memory, and waits for
  /// the first answer. Those that are gone are left out; it fails when none remains.
  Status OpenNodes();
  /// Asks all nodes of this host for memory that were not asked before.
  Status AskHere();
  /// The same for up to `count` nodes of other hosts, those that have got least.
  Status AskAbroad(std::size_t count);
  /// Asks the node for memory, or leaves it out.
  Status Ask(std::size_t node);
  /// Training: ends all sessions.
  Status LeaveNodes();
  Result<std::span<std::byte>> ReserveRoom(std::size_t bytes);
  /// Hears of each node how much room it has.
  Status ReadRoom();
  /// Training: asks nodes of other hosts for memory if they lag behind, if there is nobody to feed
  /// here, or if those that were asked have had no room for a while.
  Status LookAbroad();
  /// Training: asks the one that seems to lag most behind `accepted_by_others` how much it has, and
  /// for memory if it does. `at_once`: one without a row needs not wait for its time.
  Status AskLaggard(std::uint64_t accepted_by_others, bool at_once);
  /// Training: room for a chunk that no region holds, at one node and with no other session.
  Result<std::span<std::byte>> ReserveAlone(std::size_t bytes);
  Status CommitChunk(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read);
  /// Training: waits a while for the nodes that begin. False when there is none.
  Result<bool> AwaitBeginners();
  /// Training: keeps the chunk that was just written if a node has no row, to tell it what rows
  /// hold.
  void KeepSample(std::size_t bytes);
  /// Training: tells the nodes that have no row what rows hold.
  Status SendSamples();
  Status SendSample(Node& node, std::span<const std::byte> sample);
  /// Sends what lost nodes have left unread.
  Status Resend();
  /// Leaves the node out when `status` says that it is gone; passes other failures on.
  Status LeaveOut(std::size_t node, const Status& status);
  /// The same, but for nodes that chunks may have been sent to: then a lost one is a failure,
  /// unless what was not read can be sent to others.
  Status Lose(std::size_t node, const Status& status);
  /// Calls `call` (Node&) for each node, which says whether the node still wants rows; handles
  /// those that are gone.
  template <typename Call>
  Status ForEach(Call call);
  Status EndSessions();
  /// The two halves of it: all nodes hear of the end before any is waited for.
  Status SayEnd();
  Status AwaitEnd();
  Status Unreachable() const;
  /// Inference: opens the partition at the first node that is there.
  Status OpenOneNode(Where where);
  Result<std::unique_ptr<FeedClient>> Connect(const Endpoint& endpoint) const;
  /// Until all nodes that were asked have answered; once one has memory, for the others only a
  /// moment.
  Status AwaitAnswer();
  /// Until a node says something; false when `deadline` passes before.
  Result<bool> WaitForWord(const Deadline& deadline) const;
  Status NobodyReads() const;

  PartitionWriterOptions options_;
  std::vector<Node> nodes_;        ///< Those of this host first.
  Status unreachable_;             ///< Why the last node that could not be reached could not.
  std::size_t reserved_ = 0;       ///< The node that the last Reserve chose.
  std::span<std::byte> room_;      ///< What it gave.
  std::vector<std::byte> sample_;  ///< A chunk of the partition, for nodes without a row.
  std::uint64_t largest_region_ = 0;
  bool alone_ = false;  ///< A large chunk is or was the last: there is no session but its own.
  bool ended_ = false;
  ItemRanges delivered_;
  std::uint64_t items_sent_ = 0;
  std::uint64_t result_rows_ = 0;
  std::uint64_t moved_items_ = 0;
  std::optional<Clock::TimePoint> counted_at_;     ///< When a remote node was last asked how much.
  std::optional<Clock::TimePoint> waiting_since_;  ///< There is no room for chunks here.
  Clock::TimePoint asked_abroad_at_;
  std::vector<std::unique_ptr<FeedClient>> lost_;  ///< They keep `unread_`.
  std::deque<UnreadChunk> unread_;                 ///< To be sent again.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PARTITION_WRITER_H_
