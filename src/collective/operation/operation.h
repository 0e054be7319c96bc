#ifndef TFOS_COLLECTIVE_OPERATION_OPERATION_H_
#define TFOS_COLLECTIVE_OPERATION_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "collective/operation/element.h"
#include "tfos/status.h"

namespace tfos::collective {

enum class OperationKind : std::uint8_t {
  kAllReduce = 1,
  kBroadcast = 2,
  kAllGather = 3,
  kBarrier = 4,
  kGatherSizes = 5,  ///< Of the all-gather that follows.
  kMeet = 6,         ///< Finding out who is on which host.
};

/// What all members of a group do at a time. Members compare theirs before elements move.
struct Operation {
  static constexpr std::size_t kLongestName = 256;  ///< Bytes; longer names are cut.
  static constexpr std::size_t kHeadBytes = 24;
  /// The most bytes of a tensor, and of what all members gather together. No program wants more,
  /// and below it no sum of sizes wraps.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;

  static constexpr DType kAsItIs{};

  std::uint64_t number = 0;  ///< Of the group, from 0.
  OperationKind kind = OperationKind::kBarrier;
  DType dtype = DType::kBytes;
  /// Float32 that travels between hosts as float16 or bfloat16; kAsItIs for all else.
  DType wire = kAsItIs;
  std::uint32_t root = 0;      ///< Of a broadcast.
  std::uint64_t elements = 0;  ///< Of one member's tensor.
  std::string name = {};       ///< The program's, for messages.

  friend bool operator==(const Operation&, const Operation&) = default;

  /// For messages: `all_reduce "gradients" of float32[100] (operation 7)`.
  std::string Describe() const;
  /// As the body of an OPERATION frame.
  std::string Encode() const;
  /// Errors: bad input for what no member sends.
  static Result<Operation> Parse(std::span<const std::byte> body);
};

/// The sum of the `sizes` of what members gather, which they have told each other. `name_of` has a
/// member's name. Errors: bad input, naming the first member with which it is more than
/// Operation::kMostBytes.
Result<std::size_t> SumOfSizes(std::span<const std::size_t> sizes,
                               const std::function<std::string(std::size_t)>& name_of);

/// The failure of a member that does `ours` while `peer` does `theirs`.
Status OtherOperation(std::string_view peer, const Operation& theirs, const Operation& ours);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_OPERATION_OPERATION_H_
