#ifndef TFOS_FEED_FEEDER_NODES_PARTITION_NODES_H_
#define TFOS_FEED_FEEDER_NODES_PARTITION_NODES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time/deadline.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/nodes/node_fates.h"
#include "feed/feeder/nodes/partition_options.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// A node as the feeder of a partition knows it.
struct FedNode {
  Endpoint endpoint;
  std::unique_ptr<FeedClient> client;  ///< Null while a large chunk goes through another node.
  bool remote = false;                 ///< On another host.
  bool asked = false;                  ///< For memory.
  bool fed = false;                    ///< It may have got chunks.
  std::uint64_t free_bytes = 0;        ///< When it was last looked at.
  std::uint64_t capacity_bytes = 0;    ///< Of its region, once known.
  /// What it has accepted of all feeders, as far as this one knows.
  AcceptedBytes accepted = {};
  bool stopped = false;  ///< It wants no more rows; for when it has no client any more.
  bool silent = false;   ///< It does not even say how much it has: nothing waits for it.

  /// It was asked for memory and has not answered, and it has no row at all.
  bool beginning() const { return asked && !silent && accepted.none() && wants_rows() && !open(); }
  bool wants_rows() const { return !stopped && (client == nullptr || !client->stopped()); }
  bool open() const { return wants_rows() && client != nullptr && client->opened(); }
};

/// The nodes that the feeder of one partition feeds: which there are, whom it has asked for memory,
/// and whom it has lost. What goes to which of them is PartitionWriter's to say.
///
/// Owner and lifetime: owned by a writer; borrows its options. After a failed call only destruction
/// is useful. Threads: one at a time. Errors: those of FeedClient. Units: bytes and items.
class PartitionNodes {
 public:
  explicit PartitionNodes(const PartitionWriterOptions& options)
      : options_(options), fates_(options) {}

  /// How long the nodes of this host may have no room for a chunk before it goes to another host.
  static constexpr std::chrono::milliseconds kPatienceAtHome{200};

  /// Those of this host first. Calls below may change their number.
  std::vector<FedNode>& all() { return nodes_; }
  FedNode& operator[](std::size_t index) { return nodes_[index]; }
  std::size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  /// No node wants more rows.
  bool stopped() const;

  /// Training: connects to the nodes and asks all what they have; adds that to `delivered`.
  Status Find(std::vector<AcceptedChunk>& delivered);
  /// Training: asks the nodes of this host, or all when there is none, for memory, and waits for
  /// the first answer for kPatienceAtHome at most. Those that have ended are left out; it fails
  /// when none remains.
  Status Open();
  /// Training, after Leave: a session for one chunk of `bytes` bytes, more than any region holds,
  /// at the node that is the first to give memory for it; none when no node wants rows. It asks the
  /// one that has got least and, whenever there was no memory for a while, one more: a node that
  /// has none to give may be waiting until another one has rows.
  Result<std::optional<std::size_t>> OpenForOne(std::size_t bytes);
  enum class Where { kThisHost, kAnywhere };
  /// Inference: opens the partition at the first node that is there.
  Status OpenOne(Where where);
  Result<std::unique_ptr<FeedClient>> Connect(const Endpoint& endpoint) const;
  /// Asks the node what it has of the partition, and remembers how much it has of all.
  Result<Counted> Count(FedNode& node) const;

  /// Hears of each node how much room it has.
  Status ReadRoom();
  /// Training: asks nodes of other hosts for memory if they lag behind, if there is nobody to feed
  /// here, or if those that were asked have had no room for a while.
  Status LookAbroad();
  /// Training: waits a while for the nodes that begin. False when there is none, or when the
  /// partition has waited long enough.
  Result<bool> AwaitBeginners();
  /// Training: waits until `client`, which has asked the node for memory to send a sample, has it.
  /// False: the node has got rows meanwhile or wants none, or nothing was heard of it.
  Result<bool> AwaitRoomForSample(const Endpoint& node, FeedClient& client) const;
  /// From now on, by the clock of `progress_timeout`.
  Deadline Within(Clock::Duration duration) const {
    return Deadline::After(duration, *options_.progress_clock);
  }
  /// Until a node says something; false when `deadline` passes before.
  Result<bool> WaitForWord(const Deadline& deadline) const;
  /// A chunk finds no room since this time, or has found some here.
  void NoteNoRoom(Clock::TimePoint now) { waiting_since_ = waiting_since_.value_or(now); }
  void NoteRoom() { waiting_since_.reset(); }
  /// It has found none for so long that it may go anywhere.
  bool OutOfRoom(Clock::TimePoint now) const {
    return waiting_since_ && now - *waiting_since_ >= kPatienceAtHome;
  }

  /// Says that the partition is complete. Idempotent.
  Status SayEnd();
  /// Then waits until the nodes have taken, read or answered everything.
  Status AwaitEnd();
  bool ended() const { return ended_; }
  std::uint64_t result_rows() const { return result_rows_; }
  /// Training: ends all sessions; the partition may be opened again.
  Status Leave();

  /// Leaves the node out when `status` says that its connection is gone, and the coordinator that
  /// it has ended. Else the attempt fails: a node that runs may have rows of the partition. So it
  /// does when no node is left. Passes other failures on.
  Status LeaveOut(std::size_t node, const Status& status);
  /// The same for nodes that chunks may have been sent to. There a lost one is a failure,
  /// unless what was not read can be sent to others.
  Status Lose(std::size_t node, const Status& status);
  /// What lost nodes have left unread, to be sent again.
  std::deque<UnreadChunk>& unread() { return unread_; }
  /// It is with others now.
  void ForgetLost() {
    unread_.clear();
    lost_.clear();
  }

  /// No node is left.
  Status Unreachable() const;
  Status NobodyReads() const;

 private:
  /// Between two questions to nodes without a row, each on a new connection, or to one more node
  /// for memory: less would cost a busy node much, and more would hold feeders up that wait for
  /// each other.
  static constexpr std::chrono::seconds kMostPause{1};

  void Erase(std::size_t node, const Status& status);
  /// Asks all nodes of this host for memory that were not asked before.
  Status AskHere();
  /// The same for up to `count` nodes of other hosts, those that have got least.
  Status AskAbroad(std::size_t count);
  /// Asks the node for memory, or leaves it out.
  Status Ask(std::size_t node, const SessionOptions& session);
  /// Of the nodes that want rows and were not asked, the first of those that have got least.
  std::optional<std::size_t> LeastUnasked() const;
  /// The node that has room for the chunk, if one has; others grow.
  Result<std::optional<std::size_t>> FindRoom(std::size_t bytes);
  /// Training: asks the one that seems to lag most behind `others` how much it has, and
  /// for memory if it does. `at_once`: one without a row need not wait for its time.
  Status AskLaggard(const AcceptedBytes& others, bool at_once);
  /// Calls `call` (FedNode&) for each node, which says whether the node still wants rows; handles
  /// those that are gone.
  template <typename Call>
  Status ForEach(Call call);
  /// Until a node says something, or those that begin have said how much they have.
  Status HearOfBeginners();
  /// Until all nodes that were asked have answered, or the first one has not for a while; once one
  /// has memory, for the others only a moment.
  Status AwaitAnswer();

  const PartitionWriterOptions& options_;
  NodeFates fates_;
  std::vector<FedNode> nodes_;
  Status unreachable_;  ///< Why nodes that could not be reached could not.
  bool ended_ = false;
  std::uint64_t result_rows_ = 0;
  std::optional<Clock::TimePoint> counted_at_;     ///< When a remote node was last asked how much.
  std::optional<Clock::TimePoint> waiting_since_;  ///< Since when no node had room for chunks.
  Clock::TimePoint asked_abroad_at_;
  Clock::Duration waited_for_beginners_{};             ///< In all.
  Clock::Duration beginners_pause_ = kPatienceAtHome;  ///< Before they are asked the next time.
  std::vector<std::unique_ptr<FeedClient>> lost_;      ///< They keep `unread_`.
  std::deque<UnreadChunk> unread_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_PARTITION_NODES_H_
