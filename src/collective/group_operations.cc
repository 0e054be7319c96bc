// What the members of a group do together; group.cc has who they are.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "collective/group.h"

namespace tfos::collective {

Status Group::SumUp(DType dtype, std::span<std::byte> data, std::string_view name,
                    std::optional<DType> wire) {
  if (dtype == DType::kBytes || data.size() % ElementBytes(dtype) != 0) {
    return {ErrorKind::kBadInput,
            fmt::format("{} bytes of {} can't be summed up", data.size(), DTypeName(dtype))};
  }
  if (wire && (dtype != DType::kFloat32 || !IsNarrow(*wire))) {
    return {ErrorKind::kBadInput,
            fmt::format("{} can't be sent as {}: only float32 can, as float16 "
                        "or bfloat16",
                        DTypeName(dtype), DTypeName(*wire))};
  }
  const Operation operation = Begin({.kind = OperationKind::kAllReduce,
                                     .dtype = dtype,
                                     .wire = wire.value_or(Operation::kAsItIs),
                                     .elements = data.size() / ElementBytes(dtype)},
                                    name);
  return Finish(generation_->SumUp(operation, data));
}

Status Group::Spread(std::uint32_t root, std::span<std::byte> data, std::string_view name) {
  const auto place = std::ranges::find(ranks_, root);
  if (place == ranks_.end()) {
    if (root < options_.members.size()) {
      return {ErrorKind::kSuperseded, fmt::format("{}, whose values were to be sent in {}, is lost",
                                                  options_.members[root].name, name)};
    }
    return {ErrorKind::kBadInput, fmt::format("rank {} does not exist: the group has {} members",
                                              root, options_.members.size())};
  }
  const auto member = static_cast<std::uint32_t>(place - ranks_.begin());
  Begin({.kind = OperationKind::kBroadcast, .root = member, .elements = data.size()}, name);
  return Finish(generation_->Spread(member, data));
}

Result<std::vector<std::size_t>> Group::ShareSize(std::size_t bytes, std::string_view name) {
  Begin({.kind = OperationKind::kGatherSizes, .elements = sizeof(std::size_t)}, name);
  auto sizes = generation_->ShareSize(bytes);
  TFOS_RETURN_IF_ERROR(Finish(sizes.ok() ? Status() : sizes.status()));
  return sizes;
}

Status Group::Gather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                     std::string_view name) {
  if (sizes.size() != size()) {
    return {ErrorKind::kBadInput,
            fmt::format("{} sizes for a gather of {} members", sizes.size(), size())};
  }
  TFOS_ASSIGN_OR_RETURN(const std::size_t sum, generation_->SumOf(sizes));
  if (data.size() != sum) {
    return {ErrorKind::kBadInput, fmt::format("{} bytes for what {} members gather of {} bytes",
                                              data.size(), size(), sum)};
  }
  Begin({.kind = OperationKind::kAllGather, .elements = data.size()}, name);
  return Finish(generation_->Gather(sizes, data));
}

Status Group::AllReduce(DType dtype, std::span<std::byte> data, std::string_view name,
                        std::optional<DType> wire) {
  std::vector<std::byte> kept;
  if (membership_ != nullptr) kept.assign(data.begin(), data.end());
  bool again = false;
  return Transact([&](Transaction& transaction) {
    if (std::exchange(again, true)) std::ranges::copy(kept, data.begin());
    return transaction.AllReduce(dtype, data, name, wire);
  });
}

Status Group::Broadcast(std::uint32_t root, std::span<std::byte> data, std::string_view name) {
  // What a root has is not changed.
  return Transact(
      [&](Transaction& transaction) { return transaction.Broadcast(root, data, name); });
}

Result<std::vector<std::size_t>> Group::GatherSizes(std::size_t bytes, std::string_view name) {
  std::vector<std::size_t> sizes;
  TFOS_RETURN_IF_ERROR(Transact([&](Transaction& transaction) -> Status {
    TFOS_ASSIGN_OR_RETURN(sizes, transaction.GatherSizes(bytes, name));
    return {};
  }));
  return sizes;
}

Status Group::AllGather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                        std::string_view name) {
  return Transact(
      [&](Transaction& transaction) { return transaction.AllGather(sizes, data, name); });
}

Status Group::Barrier(std::string_view name) {
  return Transact([&](Transaction& transaction) {
    Group& group = transaction.group_;
    group.mutex_.AssertHeld();
    return group.Finish(
        group.generation_->SumUp(group.Begin({.kind = OperationKind::kBarrier}, name), {}));
  });
}

std::uint32_t Group::Transaction::place() const {
  group_.mutex_.AssertHeld();
  return group_.generation_->place();
}

bool Group::Transaction::Narrows(std::size_t bytes) const {
  group_.mutex_.AssertHeld();
  return group_.generation_->Narrows(bytes);
}

Status Group::Transaction::AllReduce(DType dtype, std::span<std::byte> data, std::string_view name,
                                     std::optional<DType> wire) {
  group_.mutex_.AssertHeld();
  return group_.SumUp(dtype, data, name, wire);
}

Status Group::Transaction::Broadcast(std::uint32_t root, std::span<std::byte> data,
                                     std::string_view name) {
  group_.mutex_.AssertHeld();
  return group_.Spread(root, data, name);
}

Result<std::vector<std::size_t>> Group::Transaction::GatherSizes(std::size_t bytes,
                                                                 std::string_view name) {
  group_.mutex_.AssertHeld();
  return group_.ShareSize(bytes, name);
}

Status Group::Transaction::AllGather(const std::vector<std::size_t>& sizes,
                                     std::span<std::byte> data, std::string_view name) {
  group_.mutex_.AssertHeld();
  return group_.Gather(sizes, data, name);
}

}  // namespace tfos::collective
