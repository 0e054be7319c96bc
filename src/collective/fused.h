#ifndef TFOS_COLLECTIVE_FUSED_H_
#define TFOS_COLLECTIVE_FUSED_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collective/group.h"

namespace tfos::collective {

/// The memory of one tensor: what this member has, and where the result goes. They don't overlap:
/// an elastic group may need the first again.
struct Exchanged {
  std::span<const std::byte> from;
  std::span<std::byte> to;  ///< Of the same size.
};

/// Several tensors in one operation, which costs as much as one tensor of their size.
///
/// Owner and lifetime: borrows the group; keeps memory for as many bytes as it has summed at once.
/// Threads: one at a time. Errors: those of the group.
class Fused {
 public:
  explicit Fused(Group& group) : group_(group) {}

  /// Sums of everybody's tensors. With `weight` the tensors are multiplied by it first, and the
  /// sums divided by that of all weights: a mean over rows, if it is the number of rows. All zero
  /// weights give zeros.
  /// `wire`: as in Group::AllReduce. What travels as float16 is scaled to its range. Returns the
  /// sum of all weights; 0 for a sum.
  Result<double> AllReduce(DType dtype, std::optional<double> weight,
                           std::span<const Exchanged> tensors, std::string_view name,
                           std::optional<DType> wire = {});
  /// The tensors of member `root`.
  Status Broadcast(std::uint32_t root, std::span<const Exchanged> tensors, std::string_view name);

 private:
  Result<double> Reduce(Group::Transaction& transaction, DType dtype, std::optional<double> weight,
                        std::span<const Exchanged> tensors, std::string_view name,
                        std::optional<DType> wire);
  /// Elements come into `buffer_` and out of it times `factor`; behind them it has room for `more`
  /// bytes.
  void Pack(DType dtype, double factor, std::span<const Exchanged> tensors, std::size_t more);
  void Unpack(DType dtype, double factor, std::span<const Exchanged> tensors) const;

  Group& group_;
  std::vector<std::byte> buffer_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_FUSED_H_
