#include "python/codec/result_batch.h"

#include <memory>
#include <span>
#include <utility>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "columns/arrow/arrow_export.h"
#include "python/codec/row_decoder.h"
#include "python/objects/arrow_capsules.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

const char* FormOf(std::span<const std::byte> bytes) {
  const chunk::ChunkView chunk = ValueOrThrow(chunk::ChunkView::Parse(bytes));
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

ResultBatch::ResultBatch(feed::ResultChunk chunk)
    : bytes_(std::make_shared<const AlignedBuffer>(std::move(chunk.bytes))),
      rows_(chunk.rows),
      form_(FormOf(bytes_->bytes())) {}

nb::list ResultBatch::Objects() const { return DecodeAll(bytes_->bytes()); }

nb::tuple ResultBatch::ArrowCapsules() const {
  return ArrowArrayCapsules([&](ArrowSchema& schema, ArrowArray& array) {
    ThrowIfError(columns::ExportToArrow(bytes_, schema, array));
  });
}

}  // namespace tfos::python
