#include "collective/fused.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/format.h"

namespace tfos::collective {
namespace {

/// The sum of everybody's `weight`. Where the elements' own type counts far enough, it goes along
/// with them, as one more element behind those of `data`.
bool HasRoomFor(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

void PutWeight(DType dtype, double weight, std::byte* at) {
  if (dtype == DType::kFloat64) {
    std::memcpy(at, &weight, sizeof(weight));
  } else {
    const auto narrow = static_cast<float>(weight);
    std::memcpy(at, &narrow, sizeof(narrow));
  }
}

double TakeWeight(DType dtype, const std::byte* at) {
  if (dtype == DType::kFloat64) {
    double weight = 0;
    std::memcpy(&weight, at, sizeof(weight));
    return weight;
  }
  float weight = 0;
  std::memcpy(&weight, at, sizeof(weight));
  return static_cast<double>(weight);
}

}  // namespace

void Fused::Pack(std::span<const Exchanged> tensors, std::size_t more) {
  std::size_t bytes = more;
  for (const Exchanged& tensor : tensors) bytes += tensor.from.size();
  buffer_.resize(bytes);
  std::byte* at = buffer_.data();
  for (const Exchanged& tensor : tensors) {
    if (tensor.from.empty()) continue;
    std::memcpy(at, tensor.from.data(), tensor.from.size());
    at += tensor.from.size();
  }
}

void Fused::Unpack(std::span<const Exchanged> tensors) const {
  const std::byte* at = buffer_.data();
  for (const Exchanged& tensor : tensors) {
    if (tensor.to.empty()) continue;
    std::memcpy(tensor.to.data(), at, tensor.to.size());
    at += tensor.to.size();
  }
}

Result<double> Fused::AllReduce(DType dtype, std::optional<double> weight,
                                std::span<const Exchanged> tensors, std::string_view name,
                                std::optional<DType> wire) {
  double total = 0;
  TFOS_RETURN_IF_ERROR(group_.Transact([&](Group::Transaction& transaction) -> Status {
    TFOS_ASSIGN_OR_RETURN(total, Reduce(transaction, dtype, weight, tensors, name, wire));
    return {};
  }));
  return total;
}

Result<double> Fused::Reduce(Group::Transaction& transaction, DType dtype,
                             std::optional<double> weight, std::span<const Exchanged> tensors,
                             std::string_view name, std::optional<DType> wire) {
  if (weight && !(*weight >= 0 && std::isfinite(*weight))) {
    return Status(ErrorKind::kBadInput, fmt::format("a weight of {} for a mean", *weight));
  }
  // A narrow type does not count far.
  const bool rides_along = weight && HasRoomFor(dtype) && !wire;
  const std::size_t more = rides_along ? ElementBytes(dtype) : 0;
  double total = weight.value_or(0), share = weight.value_or(1);
  if (weight && !rides_along) {
    // The sum of the weighted elements could be more than the type holds; their mean is not.
    TFOS_RETURN_IF_ERROR(
        transaction.AllReduce(DType::kFloat64, std::as_writable_bytes(std::span(&total, 1)), name));
    share = total > 0 ? *weight / total : 0;
  }
  // A tensor alone needs no buffer: its result is made where it goes.
  const bool alone = tensors.size() == 1 && more == 0;
  if (alone) {
    if (!tensors[0].from.empty()) std::ranges::copy(tensors[0].from, tensors[0].to.begin());
  } else {
    Pack(tensors, more);
  }
  const std::span<std::byte> all = alone ? tensors[0].to : std::span(buffer_);
  const std::span<std::byte> elements = all.first(all.size() - more);
  if (share == 0) {
    std::ranges::fill(elements, std::byte{0});  // A product would leave NaN what it is.
  } else if (share != 1) {
    ScaleElements(dtype, share, elements);
  }
  if (rides_along) PutWeight(dtype, *weight, elements.data() + elements.size());
  TFOS_RETURN_IF_ERROR(transaction.AllReduce(dtype, all, name, wire));
  if (rides_along) {
    total = TakeWeight(dtype, elements.data() + elements.size());
    if (total > 0 && total != 1) ScaleElements(dtype, 1 / total, elements);
  }
  if (!alone) Unpack(tensors);
  return total;
}

Status Fused::Broadcast(std::uint32_t root, std::span<const Exchanged> tensors,
                        std::string_view name) {
  return group_.Transact([&](Group::Transaction& transaction) -> Status {
    Pack(tensors, 0);
    TFOS_RETURN_IF_ERROR(transaction.Broadcast(root, buffer_, name));
    Unpack(tensors);
    return {};
  });
}

}  // namespace tfos::collective
