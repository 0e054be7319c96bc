#include "collective/fused.h"

#include <algorithm>
#include <array>
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

std::size_t BytesOf(std::span<const Exchanged> tensors) {
  std::size_t bytes = 0;
  for (const Exchanged& tensor : tensors) bytes += tensor.from.size();
  return bytes;
}

double LargestOf(std::span<const Exchanged> tensors) {
  float largest = 0;
  for (const Exchanged& tensor : tensors) {
    largest = std::max(largest, LargestMagnitude(tensor.from));
  }
  return static_cast<double>(largest);
}

/// Float16 has all its bits from 2^-14 to 2^16 only. The power of two by which sums, none of which
/// is more than `most`, come to its upper end.
int ExponentFor(double most) {
  constexpr int kUpperEnd = 15;
  constexpr int kLimit = 100;  // So that float32 has the power, and a share of it.
  if (!(most > 0 && std::isfinite(most))) return 0;
  int exponent = 0;
  std::frexp(most, &exponent);
  return std::clamp(kUpperEnd - exponent, -kLimit, kLimit);
}

}  // namespace

void Fused::Pack(std::span<const Exchanged> tensors, std::size_t more) {
  buffer_.resize(BytesOf(tensors) + more);
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
  const bool is_scaled =
      dtype == DType::kFloat32 && wire == DType::kFloat16 && transaction.Narrows(BytesOf(tensors));
  double total = weight.value_or(0), share = weight.value_or(1);
  int exponent = 0;
  if ((weight && !rides_along) || is_scaled) {
    std::array<double, 2> sums = {total, is_scaled ? share * LargestOf(tensors) : 0};
    TFOS_RETURN_IF_ERROR(transaction.AllReduce(
        DType::kFloat64, std::as_writable_bytes(std::span(sums).first(is_scaled ? 2 : 1)), name));
    double most = sums[1];
    if (weight) {
      // The sum of the weighted elements could be more than the type holds; their mean is not.
      total = sums[0];
      share = total > 0 ? *weight / total : 0;
      most = total > 0 ? most / total : 0;
    }
    if (is_scaled) exponent = ExponentFor(most);
  }
  const double factor = std::ldexp(share, exponent);
  // A tensor alone needs no buffer: its result is made where it goes.
  const bool alone = tensors.size() == 1 && more == 0;
  if (alone) {
    if (!tensors[0].from.empty()) std::ranges::copy(tensors[0].from, tensors[0].to.begin());
  } else {
    Pack(tensors, more);
  }
  const std::span<std::byte> all = alone ? tensors[0].to : std::span(buffer_);
  const std::span<std::byte> elements = all.first(all.size() - more);
  if (factor == 0) {
    std::ranges::fill(elements, std::byte{0});  // A product would leave NaN what it is.
  } else if (factor != 1) {
    ScaleElements(dtype, factor, elements);
  }
  if (rides_along) PutWeight(dtype, *weight, elements.data() + elements.size());
  TFOS_RETURN_IF_ERROR(transaction.AllReduce(dtype, all, name, wire));
  if (rides_along) {
    total = TakeWeight(dtype, elements.data() + elements.size());
    if (total > 0 && total != 1) ScaleElements(dtype, 1 / total, elements);
  }
  if (exponent != 0) ScaleElements(dtype, std::ldexp(1, -exponent), elements);
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
