#ifndef TFOS_COLLECTIVE_MESH_H_
#define TFOS_COLLECTIVE_MESH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/element.h"
#include "collective/link.h"
#include "collective/member.h"
#include "collective/operation.h"
#include "net/handshake.h"
#include "tfos/status.h"

namespace tfos::collective {

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

  /// Tells all members that this one begins no operation any more.
  Status TellLeft();
  /// Waits until another member has begun operation `number`; none when all have left.
  Result<std::optional<Operation>> AwaitOther(std::uint64_t number);

  /// Closes the connections, of which nobody expects anything any more: all have left.
  void Disconnect();
  /// Ends everything with `why`, unless something else has.
  Status Fail(Status why);

 private:
  explicit Mesh(GroupOptions options) : options_(std::move(options)) {}

  Status ConnectTo(std::uint32_t member, const Wait& wait);
  Status AcceptAll(const Wait& wait);
  /// Of one that wants to connect.
  Status CheckNumbers(net::Numbers numbers) const;
  Status Missing() const;
  Result<std::optional<Operation>> LookFor(std::uint64_t number);
  Status MoveAll(Link* to, Link* from);
  /// Waits until one of them can go on.
  Status Await(Link* to, Link* from, Clock::TimePoint& progress);
  void TellOfStall(const Link* to, const Link* from, Clock::Duration waited);

  GroupOptions options_;
  std::vector<std::unique_ptr<Link>> links_;  ///< By member; null for this one.
  std::vector<bool> begun_;                   ///< Links that know the current operation.
  Operation operation_;
  Status failure_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_H_
