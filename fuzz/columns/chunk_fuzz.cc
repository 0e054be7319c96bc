// The chunk parser on arbitrary bytes: it refuses them, or everything it hands out lies inside;
// also what Arrow is handed of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "columns/arrow/arrow_columns.h"
#include "columns/arrow/arrow_export.h"

namespace {

// Keeps the compiler from dropping the reads.
volatile std::uint8_t sink;

void Touch(std::span<const std::byte> bytes) {
  for (std::byte byte : bytes) sink = static_cast<std::uint8_t>(byte);
}

/// Exports a chunk and reads it all back.
void ExportAndRead(const tfos::chunk::ChunkView& view, std::span<const std::byte> bytes) {
  using namespace tfos;           // NOLINT(google-build-using-namespace)
  using namespace tfos::chunk;    // NOLINT(google-build-using-namespace)
  using namespace tfos::columns;  // NOLINT(google-build-using-namespace)
  for (const ColumnView& column : view.columns()) {
    // Values without bytes may be so many that their offsets fill the memory.
    if (HasShape(column.encoding) && column.value_elements == 0) return;
  }
  auto copy = std::make_shared<AlignedBuffer>(view.bytes());
  std::memcpy(copy->bytes().data(), bytes.data(), view.bytes());
  ArrowSchema schema{};
  ArrowArray array{};
  if (!ExportToArrow(std::move(copy), schema, array).ok()) return;
  const auto columns = ArrowColumns::Open(schema, array, Decimals::kRefuse);
  if (columns.ok() && (*columns)->Plan(0, (*columns)->rows(), 0).ok()) {
    AlignedBuffer again((*columns)->bytes());
    if (!(*columns)->Fill(again.bytes()).ok()) __builtin_trap();
  }
  schema.release(&schema);
  array.release(&array);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto chunk = tfos::chunk::ChunkView::Parse(std::as_bytes(std::span(data, size)));
  if (!chunk.ok()) return 0;
  for (const tfos::chunk::ColumnView& column : chunk->columns()) {
    Touch(std::as_bytes(std::span(column.name)));
    const std::uint64_t some = std::min<std::uint64_t>(column.values, 1000);
    for (std::uint64_t i = 0; i < some; ++i) {
      Touch(column.Value(i));
      const tfos::chunk::ElementRange elements = column.ElementsOf(i);
      const std::uint64_t last = std::min(elements.end, elements.begin + some);
      for (std::uint64_t k = elements.begin; k < last; ++k) Touch(column.BytesOf({k, k + 1}));
    }
  }
  if (chunk->kind() != tfos::chunk::ChunkKind::kColumnar) return 0;
  const auto structure = tfos::chunk::ParseRowStructure(*chunk);
  if (!structure.ok()) return 0;
  std::string again;
  tfos::chunk::AppendRowStructure(*structure, again);
  if (!std::equal(
          again.begin(), again.end(), reinterpret_cast<const char*>(chunk->structure().data()),
          reinterpret_cast<const char*>(chunk->structure().data()) + chunk->structure().size())) {
    __builtin_trap();
  }
  ExportAndRead(*chunk, std::as_bytes(std::span(data, size)));
  return 0;
}
