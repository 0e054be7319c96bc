#ifndef TFOS_COLLECTIVE_GROUP_H_
#define TFOS_COLLECTIVE_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "collective/host/host_memory.h"
#include "collective/host/host_watch.h"
#include "collective/meeting.h"
#include "collective/mesh/member.h"
#include "collective/mesh/mesh.h"
#include "collective/operation/element.h"
#include "collective/operation/timeline.h"
#include "collective/team.h"
#include "tfos/status.h"

namespace tfos::collective {

/// The nodes that train together, as seen by one of them. All call the same functions in the same
/// order, with tensors of the same type and size; each call returns when this member is done.
/// Members on one host share memory, others are connected by TCP or UCX; with several members on
/// some of several hosts, one of each host speaks for it.
///
/// Owner and lifetime: of a node's process, from the program's first use to its end. A member that
/// ends without `Leave` ends the group for all. Threads: any; calls wait for each other, except
/// `Close`. Errors: the first one ends the group for everybody, and whatever follows fails with
/// it. Reconnect: a member is gone or gave up, with its name. Bad input: members do different
/// things; names both. Sources and formats: docs/formats/tensor-protocol.md.
class Group {
 public:
  /// Waits until all members have come. Errors: retry later, naming those who have not.
  static Result<std::unique_ptr<Group>> Join(GroupOptions options);

  std::uint32_t rank() const { return mesh_->rank(); }
  std::uint32_t size() const { return mesh_->size(); }

  /// How tensors travel to the other members, for people: `shared memory`, `ucx (tcp/eth0)`.
  const std::string& transport() const { return transport_; }

  /// `data` becomes the sum of everybody's, with the same bits on every member. With `wire`,
  /// float16 or bfloat16, float32 of more than 32 KiB is rounded to that where it travels between
  /// hosts, and takes half the time there.
  Status AllReduce(DType dtype, std::span<std::byte> data, std::string_view name,
                   std::optional<DType> wire = {});
  /// `data` becomes that of member `root`.
  Status Broadcast(std::uint32_t root, std::span<std::byte> data, std::string_view name);
  /// How many bytes each member has, by member. Errors: also bad input, naming the member, when
  /// they are more than Operation::kMostBytes; so their sum does not wrap.
  Result<std::vector<std::size_t>> GatherSizes(std::size_t bytes, std::string_view name);
  /// The sum of `sizes`, one of each member. Bad input, naming the member, when it is more than
  /// Operation::kMostBytes.
  Result<std::size_t> SumOf(std::span<const std::size_t> sizes) const;
  /// Everybody's data, one behind the other, as `sizes` has it; this member's is in its place.
  /// Bad input, which ends nothing, when there are other sizes than members, or `data` is not as
  /// long as they are together.
  Status AllGather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                   std::string_view name);
  /// Returns when everybody has called it.
  Status Barrier(std::string_view name);

  /// For a member that has nothing more to do: it takes part in what the others begin, without
  /// anything of its own (zeros to sum up, no rows to gather), and returns when all have left.
  Status Leave();

  /// Ends the group for everybody: what waits in another thread fails with `why` within a moment.
  void Close(std::string_view why);

 private:
  explicit Group(std::unique_ptr<std::atomic<bool>> closed) : closed_(std::move(closed)) {}

  /// Numbers an operation and begins it. Its name may be too long.
  Operation Begin(Operation operation, std::string_view name) TFOS_REQUIRES(mutex_);
  Status SumUp(const Operation& operation, std::span<std::byte> data) TFOS_REQUIRES(mutex_);
  Status SumUpOverConnections(Team& team, const Operation& operation, std::span<std::byte> data)
      TFOS_REQUIRES(mutex_);
  Status Spread(std::uint32_t root, std::span<std::byte> data) TFOS_REQUIRES(mutex_);
  Status Gather(const std::vector<std::size_t>& sizes, std::span<std::byte> data)
      TFOS_REQUIRES(mutex_);
  Result<std::vector<std::size_t>> ShareSize(std::size_t bytes) TFOS_REQUIRES(mutex_);
  /// What a member does that has left. Bad input when that takes more memory than there is.
  Status TakePart(const Operation& operation) TFOS_REQUIRES(mutex_);
  /// The next operation that another member has begun; none when all have left.
  Result<std::optional<Operation>> AwaitOther() TFOS_REQUIRES(mutex_);
  /// The end of the operation that was begun last. Ends the group with `status` if it is a failure.
  Status Finish(Status status) TFOS_REQUIRES(mutex_);
  Status Fail(Status why) TFOS_REQUIRES(mutex_);

  std::string DescribeTransport() const;
  Team All() const;
  /// One member of each host: the first, or on the host of `instead` that one.
  Team Speakers(std::uint32_t instead) const;
  const std::vector<std::uint32_t>& Neighbours() const { return hosts_.members[hosts_.own]; }
  /// Everybody shares memory.
  bool IsOneHost() const { return hosts_.members.size() == 1 && hosts_.memory != nullptr; }
  /// Somebody shares memory.
  bool HasHosts() const { return hosts_.members.size() < size(); }

  const std::unique_ptr<std::atomic<bool>> closed_;  ///< Where the mesh sees it while it waits.
  // Set while the members join; from then on the pointers and values stay as they are.
  std::unique_ptr<Mesh> mesh_;
  Hosts hosts_;
  std::string transport_;
  std::optional<HostWatch> watch_;

  Mutex mutex_;
  std::unique_ptr<Timeline> timeline_ TFOS_GUARDED_BY(mutex_);  ///< Null if none is wanted.
  Timeline::Event event_ TFOS_GUARDED_BY(mutex_);  ///< The operation that was begun last.
  Clock::TimePoint event_begin_ TFOS_GUARDED_BY(mutex_);
  std::uint64_t next_number_ TFOS_GUARDED_BY(mutex_) = 0;
  std::vector<std::size_t> sizes_ TFOS_GUARDED_BY(mutex_);  ///< As they were gathered last.
  std::vector<std::byte> scratch_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_GROUP_H_
