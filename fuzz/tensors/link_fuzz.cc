// What a member of a group may hear from another: frames of an all-reduce, cut as the first byte
// says. Besides not crashing: it ends the same way however the stream was cut, and nothing but
// elements reaches the tensor.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/mesh/link.h"
#include "collective/mesh/test_stream.h"

namespace {

using namespace tfos::collective;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kElements = 16;
/// What is behind the room, and must stay.
constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

std::string Hear(std::span<const std::byte> said, std::size_t at_a_time, std::optional<DType> add) {
  const Operation operation{.number = 3,
                            .kind = OperationKind::kAllReduce,
                            .dtype = DType::kFloat32,
                            .elements = kElements,
                            .name = "sum"};
  std::vector<std::byte> memory(kElements * sizeof(float) + kGuard, kUntouched);
  Link link(std::make_unique<RecordedStream>(said, at_a_time), "worker:1");
  link.Begin(operation);
  link.Send({});
  link.Receive(std::span(memory).first(kElements * sizeof(float)), add);
  tfos::Status status = link.Pull();
  if (status.ok() && link.receiving()) std::abort();  // The stream never blocks.
  if (status.ok()) status = link.Peek(4).status();
  for (std::size_t i = memory.size() - kGuard; i < memory.size(); ++i) {
    if (memory[i] != kUntouched) std::abort();
  }
  return status.ok() ? "left" : status.ToString();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t at_a_time = std::size_t{1} + (data[0] >> 1);
  const auto add = (data[0] & 1) != 0 ? std::optional(DType::kFloat32) : std::nullopt;
  const auto said = std::as_bytes(std::span(data + 1, size - 1));
  if (Hear(said, at_a_time, add) != Hear(said, said.size(), add)) std::abort();
  return 0;
}
