#include "python/result_batch.h"

#include <memory>
#include <span>
#include <utility>

#include "feed/arrow_export.h"
#include "feed/chunk.h"
#include "feed/row_structure.h"
#include "python/arrow_capsules.h"
#include "python/errors.h"
#include "python/row_decoder.h"

namespace tfos::python {
namespace {

const char* FormOf(std::span<const std::byte> bytes) {
  const feed::ChunkView chunk = ValueOrThrow(feed::ChunkView::Parse(bytes));
  if (chunk.kind() != feed::ChunkKind::kColumnar) return "object";
  switch (ValueOrThrow(feed::ParseRowStructure(chunk)).kind) {
    case feed::RowNodeKind::kList:
      return "list";
    case feed::RowNodeKind::kTuple:
      return "tuple";
    case feed::RowNodeKind::kDict:
    case feed::RowNodeKind::kSparkRow:
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
    ThrowIfError(feed::ExportToArrow(bytes_, schema, array));
  });
}

}  // namespace tfos::python
