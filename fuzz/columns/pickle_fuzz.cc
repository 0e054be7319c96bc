// Pickled batches to columns on arbitrary bytes: they are refused, or what comes out is a chunk of
// columns, not larger than it may be.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "columns/pickle/pickle_columns.h"

namespace {

using namespace tfos;           // NOLINT(google-build-using-namespace)
using namespace tfos::chunk;    // NOLINT(google-build-using-namespace)
using namespace tfos::columns;  // NOLINT(google-build-using-namespace)

// The padding of a few thousand columns.
constexpr std::uint64_t kMostFixedBytes = std::uint64_t{4} << 20;

/// A chunk of one pickle, or of two that are one behind the other.
std::vector<std::byte> ChunkOf(std::span<const std::byte> pickles, std::size_t first_bytes) {
  ChunkBuilder builder(ChunkKind::kPickledBatches, kUnknownRows);
  ColumnSpec spec;
  spec.encoding = ColumnEncoding::kOpaque;
  spec.values = first_bytes == 0 ? 1 : 2;
  spec.data_bytes = pickles.size();
  builder.AddColumn(std::move(spec));
  std::vector<std::byte> chunk(builder.Plan().value());
  if (!builder.Begin(chunk).ok()) __builtin_trap();
  if (!pickles.empty()) std::memcpy(builder.data(0).data(), pickles.data(), pickles.size());
  if (first_bytes != 0) builder.SetStringBoundary(0, 1, first_bytes);
  builder.SetStringBoundary(0, first_bytes == 0 ? 1 : 2, pickles.size());
  return chunk;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto pickles = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t first = data[0] < pickles.size() ? data[0] : 0;
  const std::vector<std::byte> chunk = ChunkOf(pickles, first);
  const auto view = ChunkView::Parse(chunk);
  if (!view.ok()) __builtin_trap();
  static BufferPool pool;
  PickleColumns columns(pool);
  const auto converted = columns.Convert(*view);
  if (!converted.ok()) __builtin_trap();
  if (!*converted) return 0;
  const std::span<const std::byte> bytes = (*converted)->bytes;
  if (bytes.size() > PickleColumns::kFreeGrowthBytes + kMostFixedBytes +
                         PickleColumns::kMostGrowth * pickles.size()) {
    __builtin_trap();
  }
  const auto columnar = ChunkView::Parse(bytes);
  if (!columnar.ok() || !ParseRowStructure(*columnar).ok()) __builtin_trap();
  return 0;
}
