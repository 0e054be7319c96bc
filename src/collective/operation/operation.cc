#include "collective/operation/operation.h"

#include <string_view>

#include "base/format.h"
#include "base/memory/bytes.h"

namespace tfos::collective {
namespace {

std::string_view KindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kGatherSizes:
      return "all_gather (sizes)";
    case OperationKind::kMeet:
      return "meeting";
  }
  return "an unknown operation";
}

}  // namespace

std::string Operation::Describe() const {
  std::string text(KindName(kind));
  if (!name.empty()) text += fmt::format(" \"{}\"", name);
  if (kind == OperationKind::kBroadcast) text += fmt::format(" from member {}", root);
  if (kind != OperationKind::kBarrier) {
    text += fmt::format(" of {}[{}]", DTypeName(dtype), elements);
  }
  if (wire != kAsItIs) text += fmt::format(" sent as {}", DTypeName(wire));
  return text + fmt::format(" (operation {})", number);
}

std::string Operation::Encode() const {
  std::string body;
  body.reserve(kHeadBytes + name.size());
  AppendBytes(number, body);
  AppendBytes(static_cast<std::uint8_t>(kind), body);
  AppendBytes(static_cast<std::uint8_t>(dtype), body);
  AppendBytes(static_cast<std::uint8_t>(wire), body);
  AppendBytes(std::uint8_t{0}, body);
  AppendBytes(root, body);
  AppendBytes(elements, body);
  body.append(name, 0, kLongestName);
  return body;
}

Result<Operation> Operation::Parse(std::span<const std::byte> body) {
  if (body.size() < kHeadBytes || body.size() > kHeadBytes + kLongestName) {
    return Status(ErrorKind::kBadInput, fmt::format("an operation of {} bytes", body.size()));
  }
  ByteReader reader(body);
  Operation operation;
  operation.number = reader.Take<std::uint64_t>();
  operation.kind = reader.Take<OperationKind>();
  operation.dtype = reader.Take<DType>();
  operation.wire = reader.Take<DType>();
  const auto reserved = reader.Take<std::uint8_t>();
  operation.root = reader.Take<std::uint32_t>();
  operation.elements = reader.Take<std::uint64_t>();
  operation.name = reader.TakeText(reader.left());
  const auto kind = static_cast<std::uint8_t>(operation.kind);
  if (kind < 1 || kind > 6 || ElementBytes(operation.dtype) == 0 || reserved != 0 ||
      (operation.wire != Operation::kAsItIs &&
       (!IsNarrow(operation.wire) || operation.dtype != DType::kFloat32))) {
    return Status(ErrorKind::kBadInput, "an operation of an unknown kind or type");
  }
  if (operation.elements > kMostBytes / ElementBytes(operation.dtype)) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} has more than the {} bytes that a tensor may have",
                              operation.Describe(), kMostBytes));
  }
  return operation;
}

Result<std::size_t> SumOfSizes(std::span<const std::size_t> sizes,
                               const std::function<std::string(std::size_t)>& name_of) {
  std::size_t sum = 0;
  for (std::size_t member = 0; member < sizes.size(); ++member) {
    // Each bounded before they are added, so that the sum can't wrap.
    if (sizes[member] > Operation::kMostBytes || sum + sizes[member] > Operation::kMostBytes) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("{} wants to gather {} bytes beside the {} bytes of the members "
                                "before it: a group gathers at most {} bytes at a time",
                                name_of(member), sizes[member], sum, Operation::kMostBytes));
    }
    sum += sizes[member];
  }
  return sum;
}

Status OtherOperation(std::string_view peer, const Operation& theirs, const Operation& ours) {
  return {ErrorKind::kBadInput,
          fmt::format("{} does {}, but this member does {}: every member of a group must do the "
                      "same operations in the same order",
                      peer, theirs.Describe(), ours.Describe())};
}

}  // namespace tfos::collective
