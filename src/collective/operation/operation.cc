#include "collective/operation/operation.h"

#include <cstring>
#include <string_view>

#include "base/format.h"

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

template <typename T>
void Append(T value, std::string& to) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // Little-endian, as the machines are that tfos runs on.
  to.append(bytes, sizeof(T));
}

template <typename T>
T Read(std::span<const std::byte> body, std::size_t offset) {
  T value;
  std::memcpy(&value, body.data() + offset, sizeof(T));
  return value;
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
  Append(number, body);
  Append(static_cast<std::uint8_t>(kind), body);
  Append(static_cast<std::uint8_t>(dtype), body);
  Append(static_cast<std::uint8_t>(wire), body);
  Append(std::uint8_t{0}, body);
  Append(root, body);
  Append(elements, body);
  body.append(name, 0, kLongestName);
  return body;
}

Result<Operation> Operation::Parse(std::span<const std::byte> body) {
  if (body.size() < kHeadBytes || body.size() > kHeadBytes + kLongestName) {
    return Status(ErrorKind::kBadInput, fmt::format("an operation of {} bytes", body.size()));
  }
  Operation operation;
  operation.number = Read<std::uint64_t>(body, 0);
  operation.kind = static_cast<OperationKind>(Read<std::uint8_t>(body, 8));
  operation.dtype = static_cast<DType>(Read<std::uint8_t>(body, 9));
  operation.wire = static_cast<DType>(Read<std::uint8_t>(body, 10));
  operation.root = Read<std::uint32_t>(body, 12);
  operation.elements = Read<std::uint64_t>(body, 16);
  const auto kind = static_cast<std::uint8_t>(operation.kind);
  if (kind < 1 || kind > 6 || ElementBytes(operation.dtype) == 0 ||
      Read<std::uint8_t>(body, 11) != 0 ||
      (operation.wire != Operation::kAsItIs &&
       (!IsNarrow(operation.wire) || operation.dtype != DType::kFloat32))) {
    return Status(ErrorKind::kBadInput, "an operation of an unknown kind or type");
  }
  operation.name.assign(reinterpret_cast<const char*>(body.data()) + kHeadBytes,
                        body.size() - kHeadBytes);
  return operation;
}

Status OtherOperation(std::string_view peer, const Operation& theirs, const Operation& ours) {
  return {ErrorKind::kBadInput,
          fmt::format("{} does {}, but this member does {}: every member of a group has to do the "
                      "same operations in the same order",
                      peer, theirs.Describe(), ours.Describe())};
}

}  // namespace tfos::collective
