#include "collective/group.h"

#include <numeric>
#include <string>
#include <utility>

#include "base/format.h"
#include "collective/algorithms.h"

namespace tfos::collective {
namespace {

/// Up to here fewer steps win, beyond it fewer bytes.
constexpr std::size_t kDoublingLimit = std::size_t{32} << 10;

}  // namespace

Result<std::unique_ptr<Group>> Group::Join(GroupOptions options) {
  auto closed = std::make_unique<std::atomic<bool>>(false);
  options.check = [closed = closed.get(), check = std::move(options.check)]() -> Status {
    if (*closed) return {ErrorKind::kReconnect, "this member has left the group"};
    return check ? check() : Status();
  };
  std::unique_ptr<Group> group(new Group(std::move(closed)));
  TFOS_ASSIGN_OR_RETURN(group->mesh_, Mesh::Connect(std::move(options)));
  return group;
}

void Group::Begin(OperationKind kind, DType dtype, std::uint64_t elements, std::uint32_t root,
                  std::string_view name) {
  mesh_->Begin({.number = next_number_++,
                .kind = kind,
                .dtype = dtype,
                .root = root,
                .elements = elements,
                .name = std::string(name.substr(0, Operation::kLongestName))});
}

Status Group::AllReduce(DType dtype, std::span<std::byte> data, std::string_view name) {
  if (dtype == DType::kBytes || data.size() % ElementBytes(dtype) != 0) {
    return {ErrorKind::kBadInput,
            fmt::format("{} bytes of {} can't be summed up", data.size(), DTypeName(dtype))};
  }
  const std::lock_guard lock(mutex_);
  Begin(OperationKind::kAllReduce, dtype, data.size() / ElementBytes(dtype), 0, name);
  return SumUp(dtype, data);
}

Status Group::SumUp(DType dtype, std::span<std::byte> data) {
  if (size() == 1) return {};
  if (data.size() > kDoublingLimit) return AllReduceByRing(*mesh_, dtype, data);
  scratch_.resize(data.size());
  return AllReduceByDoubling(*mesh_, dtype, data, scratch_);
}

Status Group::Broadcast(std::uint32_t root, std::span<std::byte> data, std::string_view name) {
  if (root >= size()) {
    return {ErrorKind::kBadInput, fmt::format("there is no member {} of {}", root, size())};
  }
  const std::lock_guard lock(mutex_);
  Begin(OperationKind::kBroadcast, DType::kBytes, data.size(), root, name);
  return BroadcastByTree(*mesh_, root, data);
}

Result<std::vector<std::size_t>> Group::GatherSizes(std::size_t bytes, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Begin(OperationKind::kGatherSizes, DType::kBytes, sizeof(std::size_t), 0, name);
  return ShareSize(bytes);
}

Result<std::vector<std::size_t>> Group::ShareSize(std::size_t bytes) {
  sizes_.assign(size(), 0);
  sizes_[rank()] = bytes;
  TFOS_RETURN_IF_ERROR(AllGatherByRing(*mesh_,
                                       std::vector<std::size_t>(size(), sizeof(std::size_t)),
                                       std::as_writable_bytes(std::span(sizes_))));
  return sizes_;
}

Status Group::AllGather(const std::vector<std::size_t>& sizes, std::span<std::byte> data,
                        std::string_view name) {
  const std::lock_guard lock(mutex_);
  Begin(OperationKind::kAllGather, DType::kBytes, data.size(), 0, name);
  return AllGatherByRing(*mesh_, sizes, data);
}

Status Group::Barrier(std::string_view name) {
  const std::lock_guard lock(mutex_);
  Begin(OperationKind::kBarrier, DType::kBytes, 0, 0, name);
  return AllReduceByDoubling(*mesh_, DType::kBytes, {}, {});
}

Status Group::Leave() {
  const std::lock_guard lock(mutex_);
  TFOS_RETURN_IF_ERROR(mesh_->TellLeft());
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const std::optional<Operation> next, mesh_->AwaitOther(next_number_));
    if (!next) {
      mesh_->Disconnect();
      return {};
    }
    if (Status taken = TakePart(*next); !taken.ok()) return mesh_->Fail(std::move(taken));
  }
}

Status Group::TakePart(const Operation& operation) {
  // A member that began something else before it left is told so by the comparison of numbers.
  Operation same = operation;
  same.number = next_number_++;
  mesh_->Begin(same);
  std::vector<std::byte> nothing;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      nothing.resize(operation.elements * ElementBytes(operation.dtype));
      return SumUp(operation.dtype, nothing);
    case OperationKind::kBroadcast:
      if (operation.root == rank() || operation.root >= size()) {
        return {ErrorKind::kBadInput,
                fmt::format("{} wants something of a member that has left", operation.Describe())};
      }
      nothing.resize(operation.elements);
      return BroadcastByTree(*mesh_, operation.root, nothing);
    case OperationKind::kGatherSizes: {
      const auto sizes = ShareSize(0);
      return sizes.ok() ? Status() : sizes.status();
    }
    case OperationKind::kAllGather:
      if (sizes_.size() != size() ||
          std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0}) != operation.elements) {
        return {ErrorKind::kBadInput,
                fmt::format("{} is not as the sizes before it have it", operation.Describe())};
      }
      nothing.resize(operation.elements);
      return AllGatherByRing(*mesh_, sizes_, nothing);
    case OperationKind::kBarrier:
      return AllReduceByDoubling(*mesh_, DType::kBytes, {}, {});
  }
  return {ErrorKind::kBug, "an operation of no kind"};
}

void Group::Close(std::string_view why) {
  *closed_ = true;
  const std::lock_guard lock(mutex_);
  static_cast<void>(mesh_->Fail({ErrorKind::kReconnect, std::string(why)}).ok());
}

}  // namespace tfos::collective
