#ifndef TFOS_PARAMETER_SERVER_MODEL_STORE_H_
#define TFOS_PARAMETER_SERVER_MODEL_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/shared_memory.h"
#include "parameter_server/model/layout.h"
#include "parameter_server/model/rule.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// What the system shows of shared memory.
inline constexpr const char* kMemoryName = "tfos-parameters";

/// A server's share of the variables, in memory that clients of its host read by themselves.
///
/// Owner and lifetime: of a Server. Threads: one at a time; readers of the shared memory any time
/// (StoreView). Errors: bad input for ranges and parts that there are not. Units: bytes.
///
/// Each block has a counter that is odd while the block changes, as in a sequence lock: a block is
/// read as it was between two pushes, different blocks maybe between different ones.
class Store {
 public:
  /// With zeros, not started.
  static Result<std::unique_ptr<Store>> Create(std::vector<Variable> share, const Rule& rule);

  const Layout& layout() const { return layout_; }
  const Rule& rule() const { return rule_; }
  std::uint64_t bytes() const { return layout_.bytes(); }
  const SharedMemory& memory() const { return memory_; }

  /// Whether it has got its first values.
  bool started() const { return started_; }
  /// How many pushes are complete.
  std::uint64_t version() const;
  /// Forgets what was written of them: the next client that gives values may have no slots.
  void ClearSlots();
  /// Says that what was written is what to go on from.
  void StartAt(std::uint64_t version);

  /// Combines what was pushed for the range that begins at `begin`; a multiple of kAlignment, as is
  /// the end. `step` is that of the push, from BeginPush.
  Status Push(std::uint64_t step, std::uint64_t begin, std::span<const std::byte> pushed);
  /// The number of the push that begins now.
  std::uint64_t BeginPush() { return ++pushes_; }
  /// A push is complete; the version after it.
  std::uint64_t FinishPush();

  /// Part 0 are the values, 1 and 2 the optimizer's slots.
  Status Write(std::size_t part, std::uint64_t begin, std::span<const std::byte> data);
  /// Valid until the next change.
  Result<std::span<const std::byte>> Read(std::size_t part, std::uint64_t begin,
                                          std::uint64_t bytes) const;

 private:
  Store(Layout layout, const Rule& rule) : layout_(std::move(layout)), rule_(rule) {}

  std::span<std::byte> Part(std::size_t part);
  Status CheckRange(std::uint64_t begin, std::uint64_t bytes) const;
  Status CheckPart(std::size_t part) const;
  /// Runs `change(begin, end)` for each block of the range, with the block marked as changing.
  void ChangeBlocks(std::uint64_t begin, std::uint64_t end,
                    const std::function<void(std::uint64_t, std::uint64_t)>& change);
  std::atomic_ref<std::uint64_t> Word(std::size_t index) const;

  const Layout layout_;
  const Rule rule_;
  SharedMemory memory_;
  std::span<std::byte> values_;
  std::vector<std::byte> slots_[2];
  bool started_ = false;
  std::uint64_t pushes_ = 0;
};

/// A client's look into a Store of its host.
///
/// Owner and lifetime: of a client; its memory stays when the server has died. Threads: any.
class StoreView {
 public:
  /// Maps the memory of a store of `bytes`.
  static Result<StoreView> Map(UniqueFd fd, std::uint64_t bytes);

  std::uint64_t version() const;
  /// Copies all values to `to`. Where a block keeps changing, `check` is asked in between; its
  /// failure ends the copy.
  Status Copy(std::span<std::byte> to, const std::function<Status()>& check) const;

 private:
  SharedMemory memory_;
};

/// The size of the shared memory of a store of `bytes`.
std::uint64_t StoreMemoryBytes(std::uint64_t bytes);

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_MODEL_STORE_H_
