#include "chunk/pickle_leave.h"

#include "base/format.h"

namespace tfos::chunk {
namespace {

constexpr std::string_view kAPickle = "a chunk of rows came as a pickle";

}  // namespace

Status PicklesRefused(std::string_view why) {
  return {ErrorKind::kBadInput,
          fmt::format("spark.tfos.feed.pickle=false lets rows travel as columns only, and {}: give "
                      "all rows one structure of numbers, text, bytes, lists, tuples, dicts and "
                      "NumPy arrays, or set spark.tfos.feed.pickle=true",
                      why)};
}

Status CheckLeave(const ChunkView& chunk, bool pickles) {
  if (pickles || chunk.kind() == ChunkKind::kColumnar) return {};
  return PicklesRefused(kAPickle);
}

Status CheckLeave(std::span<const std::byte> chunk, bool pickles) {
  if (pickles || SaysColumnar(chunk)) return {};
  return PicklesRefused(kAPickle);
}

}  // namespace tfos::chunk
