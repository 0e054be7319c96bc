#include "python/result_batch.h"

#include <memory>
#include <span>
#include <utility>

#include "feed/arrow_export.h"
#include "feed/chunk.h"
#include "feed/row_structure.h"
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

/// A struct of Arrow in a capsule, which releases it unless a consumer has taken it over.
template <typename T>
nb::object Capsule(std::unique_ptr<T> exported, const char* name) {
  const auto release = [](PyObject* capsule) {
    auto* const held = static_cast<T*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    if (held->release != nullptr) held->release(held);
    delete held;
  };
  PyObject* const capsule = PyCapsule_New(exported.get(), name, release);
  if (capsule == nullptr) throw nb::python_error();
  exported.release();  // The capsule's now.
  return nb::steal(capsule);
}

}  // namespace

ResultBatch::ResultBatch(feed::ResultChunk chunk)
    : bytes_(std::make_shared<const feed::AlignedBuffer>(std::move(chunk.bytes))),
      rows_(chunk.rows),
      form_(FormOf(bytes_->bytes())) {}

nb::list ResultBatch::Objects() const { return DecodeAll(bytes_->bytes()); }

nb::tuple ResultBatch::ArrowCapsules() const {
  // In capsules before they are filled, so that whatever fails releases them.
  auto* const schema = new ArrowSchema{};
  const nb::object schema_capsule = Capsule(std::unique_ptr<ArrowSchema>(schema), "arrow_schema");
  auto* const array = new ArrowArray{};
  const nb::object array_capsule = Capsule(std::unique_ptr<ArrowArray>(array), "arrow_array");
  ThrowIfError(feed::ExportToArrow(bytes_, *schema, *array));
  return nb::make_tuple(schema_capsule, array_capsule);
}

}  // namespace tfos::python
