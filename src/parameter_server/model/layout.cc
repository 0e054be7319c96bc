#include "parameter_server/model/layout.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::parameter_server {
namespace {

/// A share may be this much larger or smaller so that no variable is cut.
constexpr std::uint64_t kSlackBytes = 64 * 1024;

std::uint64_t Aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<DType> VariableTypeFrom(std::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,
                            DType::kFloat16, DType::kBfloat16}) {
    if (collective::DTypeName(dtype) == name) return dtype;
  }
  return Status(ErrorKind::kBadInput, fmt::format("a parameter server can't keep {}", name));
}

Result<Layout> Layout::Of(std::vector<Variable> variables) {
  if (variables.empty() || variables.size() > kMostVariables) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} variables: a parameter server takes from 1 to {}",
                              variables.size(), kMostVariables));
  }
  Layout layout;
  for (const Variable& variable : variables) {
    const std::size_t element = collective::ElementBytes(variable.dtype);
    if (element == 0 || variable.dtype == DType::kBytes) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("variable {} is of type {}: parameter servers take numbers that "
                                "can be added up",
                                layout.places_.size(), collective::DTypeName(variable.dtype)));
    }
    if (variable.elements > kMostBytes / element ||
        layout.bytes_ + variable.elements * element > kMostBytes) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("variables of more than {} bytes", kMostBytes));
    }
    layout.places_.push_back({.begin = layout.bytes_, .bytes = variable.elements * element});
    layout.bytes_ = Aligned(layout.bytes_ + variable.elements * element);
  }
  layout.variables_ = std::move(variables);
  return layout;
}

std::vector<Layout::Part> Layout::PartsOf(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Part> parts;
  const auto first = std::ranges::upper_bound(places_, begin, {}, [](const Place& place) {
    return place.begin + place.bytes;  // The first that does not end before.
  });
  for (auto it = first; it != places_.end() && it->begin < end; ++it) {
    const std::uint64_t from = std::max(begin, it->begin);
    const std::uint64_t to = std::min(end, it->begin + it->bytes);
    if (from >= to) continue;
    const auto variable = static_cast<std::size_t>(it - places_.begin());
    parts.push_back({.variable = variable,
                     .dtype = variables_[variable].dtype,
                     .averaged = variables_[variable].averaged,
                     .begin = from,
                     .bytes = to - from});
  }
  return parts;
}

std::vector<Variable> Layout::ShareOf(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Variable> share;
  for (const Part& part : PartsOf(begin, end)) {
    share.push_back({.dtype = part.dtype,
                     .elements = part.bytes / collective::ElementBytes(part.dtype),
                     .averaged = part.averaged});
  }
  return share;
}

std::vector<std::uint64_t> Layout::Cut(std::size_t servers) const {
  std::vector<std::uint64_t> cuts{0};
  for (std::size_t server = 1; server < servers; ++server) {
    const std::uint64_t ideal = Aligned(bytes_ / servers * server);
    std::uint64_t cut = ideal;
    std::uint64_t distance = kSlackBytes;
    for (const Place& place : places_) {
      const std::uint64_t away = std::max(place.begin, ideal) - std::min(place.begin, ideal);
      if (away >= distance) continue;
      distance = away;
      cut = place.begin;
    }
    cuts.push_back(std::clamp(cut, cuts.back(), bytes_));
  }
  cuts.push_back(bytes_);
  return cuts;
}

}  // namespace tfos::parameter_server
