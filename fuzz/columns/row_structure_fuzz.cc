// Any bytes as the structure of a chunk's rows, above columns of the first byte's number and kinds:
// refused, or read and written alike.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tfos::chunk;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const std::string structure(reinterpret_cast<const char*>(data + 1), size - 1);
  ChunkBuilder builder(ChunkKind::kColumnar, 1, structure);
  const std::size_t columns = data[0] % 8;
  for (std::size_t i = 0; i < columns; ++i) {
    ColumnSpec spec;
    spec.values = 1;
    switch (data[0] / 8 % 4) {
      case 0:
        spec.dtype = DType::kInt64;
        break;
      case 1:
        spec.dtype = DType::kFloat32;
        spec.shape = {2};
        break;
      case 2:
        spec.encoding = ColumnEncoding::kText;
        spec.strings = 1;
        break;
      default:
        spec.encoding = ColumnEncoding::kRagged;
        spec.dtype = DType::kFloat32;
    }
    builder.AddColumn(std::move(spec));
  }
  const auto bytes = builder.Plan();
  if (!bytes.ok()) return 0;
  std::vector<std::byte> chunk(*bytes);
  if (!builder.Begin(chunk).ok()) return 0;
  for (std::size_t i = 0; i < columns; ++i) {
    if (data[0] / 8 % 4 == 2) builder.SetStringBoundary(i, 1, 0);
    if (data[0] / 8 % 4 == 3) builder.SetBoundary(i, 1, 0);
  }
  const auto view = ChunkView::Parse(chunk);
  if (!view.ok()) return 0;
  const auto root = ParseRowStructure(*view);
  if (!root.ok()) return 0;
  std::string again;
  AppendRowStructure(*root, again);
  if (again != structure) __builtin_trap();
  return 0;
}
