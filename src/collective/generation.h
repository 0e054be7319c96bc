#ifndef TFOS_COLLECTIVE_GENERATION_H_
#define TFOS_COLLECTIVE_GENERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collective/host/host_watch.h"
#include "collective/meeting.h"
#include "collective/mesh/member.h"
#include "collective/mesh/mesh.h"
#include "collective/operation/element.h"
#include "collective/operation/operation.h"
#include "collective/team.h"
#include "tfos/status.h"

namespace tfos::collective {

/// The members of a group as long as nobody is lost: their connections, the memory that those of
/// one host share, and the operations over both. Members have numbers of their own here, their
/// places in GroupOptions::members.
///
/// Owner and lifetime: of a Group. Threads: one at a time. Errors: as Mesh: the first one ends the
/// generation for all its members, once it is told to `Fail`.
class Generation {
 public:
  /// Waits until all members have come. Errors: as Mesh::Connect.
  static Result<std::unique_ptr<Generation>> Connect(GroupOptions options);

  std::uint32_t place() const { return mesh_->rank(); }
  std::uint32_t size() const { return mesh_->size(); }
  const GroupOptions& options() const { return mesh_->options(); }
  /// How many operations this member has begun, those that Connect has done among them.
  std::uint64_t begun() const { return next_number_; }

  /// How tensors travel to the other members, for people: `shared memory`, `ucx (tcp/eth0)`.
  std::string DescribeTransport() const;
  /// How long the current operation has waited for members that had not begun it.
  Clock::Duration waited() const;

  /// Whether sums of so many bytes go between hosts as the type on the wire. The same for all.
  bool Narrows(std::size_t bytes) const;

  /// Numbers an operation and begins it. Its name may be too long.
  Operation Begin(Operation operation, std::string_view name);

  // The operations, each after its Begin. See Group for what they do.

  Status SumUp(const Operation& operation, std::span<std::byte> data);
  Status Spread(std::uint32_t root, std::span<std::byte> data);
  Result<std::vector<std::size_t>> ShareSize(std::size_t bytes);
  Status Gather(const std::vector<std::size_t>& sizes, std::span<std::byte> data);

  /// The sum of `sizes`, one of each member. Bad input, naming the member, when it is more than
  /// Operation::kMostBytes.
  Result<std::size_t> SumOf(std::span<const std::size_t> sizes) const;

  /// Tells the others that this member begins nothing more.
  Status TellLeft();
  /// The next operation that another member has begun; none when all have left.
  Result<std::optional<Operation>> AwaitOther();
  /// What a member does that has left. Bad input when that takes more memory than there is.
  Status TakePart(const Operation& operation);
  /// Closes the connections once all have left.
  void Disconnect() { mesh_->Disconnect(); }

  /// Ends the generation for everybody with `why`, unless something else has, and returns that.
  Status Fail(Status why);

 private:
  Generation() = default;

  Status SumUpOverConnections(Team& team, const Operation& operation, std::span<std::byte> data);
  Team All() const;
  /// One member of each host: the first, or on the host of `instead` that one.
  Team Speakers(std::uint32_t instead) const;
  const std::vector<std::uint32_t>& Neighbours() const { return hosts_.members[hosts_.own]; }
  /// Everybody shares memory.
  bool IsOneHost() const { return hosts_.members.size() == 1 && hosts_.memory != nullptr; }
  /// Somebody shares memory.
  bool HasHosts() const { return hosts_.members.size() < size(); }

  std::unique_ptr<Mesh> mesh_;
  Hosts hosts_;
  std::optional<HostWatch> watch_;
  std::uint64_t next_number_ = 0;
  std::vector<std::size_t> sizes_;  ///< As they were gathered last.
  std::vector<std::byte> scratch_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_GENERATION_H_
