#include "python/codec/result_batch.h"

#include <memory>
#include <span>
#include <utility>

#include "chunk/chunk.h"
#include "chunk/pickle_leave.h"
#include "chunk/row_structure.h"
#include "columns/arrow/arrow_export.h"
#include "python/codec/row_decoder.h"
#include "python/objects/arrow_capsules.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

const char* FormOf(std::span<const std::byte> bytes, bool pickles) {
  const chunk::ChunkView chunk = ValueOrThrow(chunk::ChunkView::Parse(bytes));
  ThrowIfError(chunk::CheckLeave(chunk, pickles));
  if (chunk.kind() != chunk::ChunkKind::kColumnar) return "object";
  switch (ValueOrThrow(chunk::ParseRowStructure(chunk)).kind) {
    case chunk::RowNodeKind::kList:
      return "list";
    case chunk::RowNodeKind::kTuple:
      return "tuple";
    case chunk::RowNodeKind::kDict:
    case chunk::RowNodeKind::kSparkRow:
      return "mapping";
    default:
      return "value";
  }
}

}  // namespace

ResultBatch::ResultBatch(feed::ResultChunk chunk, bool pickles)
    : bytes_(std::make_shared<const AlignedBuffer>(std::move(chunk.bytes))),
      rows_(chunk.rows),
      form_(FormOf(bytes_->bytes(), pickles)) {}

nb::list ResultBatch::Objects() const { return DecodeAll(bytes_->bytes()); }

nb::tuple ResultBatch::ArrowCapsules() const {
  return ArrowArrayCapsules([&](ArrowSchema& schema, ArrowArray& array) {
    ThrowIfError(columns::ExportToArrow(bytes_, schema, array));
  });
}

}  // namespace tfos::python
