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

/// What weighted elements of a mean, and the weight that goes along with them, are multiplied with:
/// the sum of large elements times weights is finite as their mean is. A power of two, so no
/// element but the tiniest loses anything.
constexpr double kHeadroom = 0x1p-24;

/// to = from * factor; `to` may be the same memory.
void Take(DType dtype, double factor, std::span<const std::byte> from, std::span<std::byte> to) {
  if (factor == 0) {
    std::ranges::fill(to, std::byte{0});  // A product would leave NaN what it is.
  } else if (factor != 1) {
    ScaleElements(dtype, factor, from, to);
  } else if (!from.empty() && from.data() != to.data()) {
    std::memcpy(to.data(), from.data(), from.size());
  }
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

void Fused::Pack(DType dtype, double factor, std::span<const Exchanged> tensors, std::size_t more) {
  buffer_.resize(BytesOf(tensors) + more);
  std::span<std::byte> rest = buffer_;
  for (const Exchanged& tensor : tensors) {
    Take(dtype, factor, tensor.from, rest.first(tensor.from.size()));
    rest = rest.subspan(tensor.from.size());
  }
}

void Fused::Unpack(DType dtype, double factor, std::span<const Exchanged> tensors) const {
  std::span<const std::byte> rest = buffer_;
  for (const Exchanged& tensor : tensors) {
    Take(dtype, factor, rest.first(tensor.to.size()), tensor.to);
    rest = rest.subspan(tensor.to.size());
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
  const double factor = rides_along ? *weight * kHeadroom : std::ldexp(share, exponent);
  // A tensor alone needs no buffer: its result is made where it goes.
  const bool alone = tensors.size() == 1 && more == 0;
  if (alone) {
    Take(dtype, factor, tensors[0].from, tensors[0].to);
  } else {
    Pack(dtype, factor, tensors, more);
  }
  const std::span<std::byte> all = alone ? tensors[0].to : std::span(buffer_);
  std::byte* const behind = all.data() + all.size() - more;
  if (rides_along) PutWeight(dtype, factor, behind);
  TFOS_RETURN_IF_ERROR(transaction.AllReduce(dtype, all, name, wire));
  double back = std::ldexp(1, -exponent);
  if (rides_along) {
    const double sum = TakeWeight(dtype, behind);
    total = sum / kHeadroom;
    if (sum > 0) back = 1 / sum;
  }
  if (alone) {
    Take(dtype, back, all, all);
  } else {
    Unpack(dtype, back, tensors);
  }
  return total;
}

Status Fused::Broadcast(std::uint32_t root, std::span<const Exchanged> tensors,
                        std::string_view name) {
  return group_.Transact([&](Group::Transaction& transaction) -> Status {
    Pack(DType::kBytes, 1, tensors, 0);
    TFOS_RETURN_IF_ERROR(transaction.Broadcast(root, buffer_, name));
    Unpack(DType::kBytes, 1, tensors);
    // It may have held all of a model, of which steps move the gradients alone.
    buffer_.clear();
    buffer_.shrink_to_fit();
    return {};
  });
}

}  // namespace tfos::collective
