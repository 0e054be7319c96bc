#ifndef TFOS_COLLECTIVE_HOST_HOST_MEMORY_H_
#define TFOS_COLLECTIVE_HOST_HOST_MEMORY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/shared_memory.h"
#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "collective/operation/operation.h"
#include "tfos/status.h"

namespace tfos::collective {

/// Memory that the members on one host share, as docs/formats/tensor-protocol.md lays it out: for
/// each of them a page of counters and descriptions, and slots through which tensors pass in
/// chunks. Each member writes to its own part only and reads all others.
///
/// It knows nothing of connections: while it waits it asks `Watch`, which knows who is alive.
///
/// Owner and lifetime: of a Group; an anonymous file that goes with the last process. Threads: one
/// at a time. Units: bytes; members are numbered as on this host, from 0. Errors: those of Watch;
/// bad input when two members do different things, naming both.
class HostMemory {
 public:
  /// Chunks under way at a time; with `kSlotBytes` each this is what a member takes: 2 MiB.
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{512} << 10;

  /// What a wait asks. Called on the thread that waits.
  class Watch {
   public:
    virtual ~Watch() = default;
    /// Asked every `kCheckInterval`, and when the member has given up. Fails when the wait is in
    /// vain.
    virtual Status OnWait(std::size_t member, std::chrono::steady_clock::duration waited) = 0;
    /// The member waits to be told of the current operation. Asked once for each operation.
    virtual Status OnLeft(std::size_t member) = 0;
    /// What messages call the member.
    virtual const std::string& NameOf(std::size_t member) const = 0;
  };

  /// New memory for `members`, of which the creator is number 0. `fd()` is for the others.
  static Result<std::unique_ptr<HostMemory>> Create(std::size_t members);
  /// Maps what member 0 has created. Bad input when it is not of that size and sealed.
  static Result<std::unique_ptr<HostMemory>> Map(UniqueFd fd, std::size_t members,
                                                 std::size_t rank);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::size_t size() const { return members_; }
  std::size_t rank() const { return rank_; }
  int fd() const { return memory_.fd(); }
  /// Nobody else is to get the memory: closes the descriptor.
  void Seal() { memory_.CloseFd(); }

  /// Whom all waits ask; outlives them.
  void SetWatch(Watch& watch) { watch_ = &watch; }

  /// Tells the others which operation this member does from now on.
  void Begin(const Operation& operation);
  /// The operation `number` of another member, if one has begun it and it is not long ago.
  Result<std::optional<Operation>> Find(std::uint64_t number) const;

  /// The number of the next chunk; all members take the same ones.
  std::uint64_t TakeChunk() { return next_chunk_++; }
  std::span<std::byte> slot(std::uint64_t chunk) const { return SlotOf(rank_, chunk); }
  std::span<const std::byte> slot(std::size_t member, std::uint64_t chunk) const {
    return SlotOf(member, chunk);
  }

  /// How far a member is with a chunk. A later stage of a chunk comes after all earlier ones of it
  /// and of those before.
  enum class Stage : std::size_t {
    kFilled,   ///< What it gives is in its slot.
    kReduced,  ///< Its part of the result is in its slot.
    kDone,     ///< It reads no slot of this chunk any more.
  };
  /// This member has come to `stage` of `chunk`.
  void Publish(Stage stage, std::uint64_t chunk);
  /// Waits until `member` has come to `stage` of `chunk` of the current operation, which it must
  /// do too.
  Status Await(std::size_t member, Stage stage, std::uint64_t chunk);
  /// How long it has waited in the current operation for members that had not begun it. It grows
  /// while a wait goes on. Threads: any.
  Clock::Duration waited() const { return Clock::Duration(waited_.load()); }
  Status AwaitAll(Stage stage, std::uint64_t chunk);
  /// Waits until all are done with what was in the slot of `chunk`.
  Status AwaitFree(std::uint64_t chunk);

  /// This member begins no operation any more.
  void TellLeft();
  /// Members that have said so are told of the current operation.
  Status TellThoseWhoLeft();
  /// This member can't go on, and has told why elsewhere.
  void TellFailed();
  /// This member is kept waiting by somebody, numbered as in the group.
  void TellWaiting(std::uint32_t for_whom);
  /// Whom `member` waits for in the current operation, as far as it said.
  std::optional<std::uint32_t> WaitsFor(std::size_t member) const;

 private:
  struct Control;

  HostMemory(SharedMemory memory, std::size_t members, std::size_t rank);

  static std::size_t BytesFor(std::size_t members);

  Control& ControlOf(std::size_t member) const;
  std::span<std::byte> SlotOf(std::size_t member, std::uint64_t chunk) const;
  void Ring();
  /// `meter` grows by what the wait takes, also while it goes on.
  Status WaitFor(std::size_t member, const std::function<bool()>& reached,
                 std::atomic<Clock::Duration::rep>* meter = nullptr);
  Status Compare(std::size_t member);

  SharedMemory memory_;
  const std::size_t members_;
  const std::size_t rank_;
  const bool crowded_;  ///< There are not enough processors for all members to be awake.
  Watch* watch_ = nullptr;
  std::uint64_t next_chunk_ = 1;
  Operation operation_;
  std::vector<bool> agreed_;  ///< Members that are known to do this operation.
  std::vector<bool> told_;    ///< Members that have left and know of this operation.
  std::atomic<Clock::Duration::rep> waited_ = 0;
  std::chrono::nanoseconds patience_;  ///< How long to look before it sleeps.
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_HOST_HOST_MEMORY_H_
