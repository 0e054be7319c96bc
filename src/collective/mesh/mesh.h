#ifndef TFOS_COLLECTIVE_MESH_MESH_H_
#define TFOS_COLLECTIVE_MESH_MESH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/mesh/link.h"
#include "collective/mesh/member.h"
#include "collective/operation/element.h"
#include "collective/operation/operation.h"
#include "net/ack_watch.h"
#include "net/handshake/acceptor.h"
#include "net/handshake/handshake.h"
#include "net/ucx/ucx_worker.h"
#include "tfos/status.h"

namespace tfos::collective {

/// The protocol of all connections between members: docs/formats/tensor-protocol.md.
inline constexpr net::Protocol kTensorProtocol{
    .magic = "tfos-ten", .version = 5, .name = "tensors"};

/// A member's connections to all others, and the one step that all algorithms are made of: send to
/// one member while receiving from another.
///
/// Owner and lifetime: of a Group. Threads: one at a time. Errors: the first one ends all: it is
/// told to every member, the connections are closed, and whatever follows fails with it. Reconnect
/// when a member is gone, bad input when members do different things.
class Mesh {
 public:
  /// Waits until all members are connected. Errors: retry later when some are missing at the
  /// deadline, naming them.
  static Result<std::unique_ptr<Mesh>> Connect(GroupOptions options);

  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const GroupOptions& options() const { return options_; }
  const Status& failure() const { return failure_; }
  std::uint32_t rank() const { return options_.rank; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(options_.members.size()); }

  /// All `Move`s from now on belong to `operation`.
  void Begin(const Operation& operation);

  /// What one step moves. Members that are given are never this one; `to` and `from` may be the
  /// same. Data that is sent must not be in the room.
  struct Step {
    std::optional<std::uint32_t> to = {};
    std::span<const std::byte> data = {};
    std::optional<std::uint32_t> from = {};
    std::span<std::byte> room = {};
    std::optional<DType> add = {};  ///< Elements are added to what is in the room.
  };
  Status Move(const Step& step);

  /// What this member brings along to its connections.
  net::Party party() const;
  /// The numbers of a connection to member `accepting`.
  net::Numbers NumbersTo(std::uint32_t accepting) const;
  /// Checks the numbers of a member that wants to connect to this one: those after it do.
  Status CheckNumbers(const net::Numbers& numbers) const;

  /// How elements travel to the other members, for people: `tcp`, `ucx (rc_mlx5/mlx5_0:1)`.
  std::string DescribeStreams() const;

  /// How long `Move` has waited in the current operation for members that had not begun it. It
  /// grows while a wait goes on. Threads: any.
  Clock::Duration waited() const { return Clock::Duration(waited_.load()); }

  /// For a caller that has waited so long for `member` in its own way, asked in intervals: fails
  /// when that member is gone, or after a while when any is.
  Status CheckAlive(std::uint32_t member, Clock::Duration waited);
  /// Says in the log, and to all others, that this member has waited so long for `culprit`.
  void TellOfStall(std::uint32_t culprit, Clock::Duration waited);
  /// Called with whom this member waits for when `Move` takes long.
  void SetOnStall(std::function<void(std::uint32_t)> on_stall) { on_stall_ = std::move(on_stall); }
  /// Tells a member that has left of the current operation.
  Status Announce(std::uint32_t member);

  /// Tells all members that this one has begun the operations below the number `begun`, and begins
  /// none any more.
  Status TellLeft(std::uint64_t begun);
  /// Finds an operation that another member has begun, in a way of its own.
  using Finder = std::function<Result<std::optional<Operation>>()>;
  /// Waits until another member has begun operation `number`, as it says over its connection or
  /// `find` finds; none when all have left, and none of them has begun it.
  Result<std::optional<Operation>> AwaitOther(std::uint64_t number, const Finder& find);

  /// Closes the connections, of which nobody expects anything any more: all have left.
  void Disconnect();
  /// Ends everything with `why`, unless something else has.
  Status Fail(Status why);

 private:
  explicit Mesh(GroupOptions options)
      : options_(std::move(options)), acks_(options_.members.size()) {}

  Status ConnectTo(std::uint32_t member, const Wait& wait);
  Status AcceptAll(const Wait& wait);
  /// Has a link to `member` over a connection that has just been made.
  Status Connected(std::uint32_t member, net::Connection connection, const Wait& wait);
  /// Those after this one that have not come, `most` of them by name.
  std::string MissingNames(std::size_t most) const;
  Status Missing() const;
  /// Says in the log whom UCX does not reach; fails if this member insists on it.
  Status CheckStreams() const;
  Result<std::optional<Operation>> LookFor(std::uint64_t number, const Finder& find);
  Status MoveAll(Link* to, Link* from);
  /// Waits until one of them may be able to go on, or until it is time to look at other things.
  /// Nothing has moved for `waited`.
  Status Await(Link* to, Link* from, Clock::Duration waited);
  /// What UCX has may be moved on, or something was. Else its descriptor is ready to be polled.
  bool ProgressUcx();
  /// Fails if another member has closed its connection, or can't be reached any more, which those
  /// may wait for that this one waits for.
  Status CheckPeers(Clock::Duration waited);
  /// For what waits since `since` without progress.
  Status CheckWait(Link* to, Link* from, Clock::TimePoint& since);
  void OnStall(const Link* waited_for, Clock::Duration waited);
  Link& LinkTo(std::uint32_t member);

  GroupOptions options_;
  std::unique_ptr<net::UcxWorker> ucx_;       ///< Null without it.
  std::vector<std::unique_ptr<Link>> links_;  ///< By member; null for this one.
  std::vector<net::AckWatch> acks_;           ///< Of the links.
  std::vector<bool> begun_;                   ///< Links that know the current operation.
  Operation operation_;
  bool unencrypted_ = false;  ///< UCX is used where TLS would be without it.
  bool told_left_ = false;    ///< From then on others may close their connections.
  std::function<void(std::uint32_t)> on_stall_;
  std::atomic<Clock::Duration::rep> waited_ = 0;
  Status failure_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_MESH_H_
