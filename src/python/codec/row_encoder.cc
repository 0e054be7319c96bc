#include "python/codec/row_encoder.h"

#include <utility>

#include "chunk/pickle_leave.h"
#include "python/codec/row_values.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

/// The module if the program has imported it; else none. Importing it ourselves would be slow and
/// useless: without it no row can hold an object of its types.
nb::object ImportedModule(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return nb::borrow(PyDict_GetItemString(modules, name));
}

}  // namespace

void RowEncoder::Plan(nb::list rows, std::size_t begin, std::size_t end) {
  if (!PlanIfColumnar(std::move(rows), begin, end)) PlanPickle();
}

void RowEncoder::PlanPickle() {
  if (!pickles_) ThrowStatus(chunk::PicklesRefused(WhyNoColumns()));
  pickled_.Plan(rows_, begin_, end_);
}

bool RowEncoder::PlanIfColumnar(nb::list rows, std::size_t begin, std::size_t end) {
  return PlanAtDepth(std::move(rows), begin, end, 0);
}

bool RowEncoder::PlanColumn(nb::list values, std::size_t begin, std::size_t end) {
  return PlanAtDepth(std::move(values), begin, end, 1);
}

bool RowEncoder::PlanAtDepth(nb::list rows, std::size_t begin, std::size_t end, int depth) {
  rows_ = std::move(rows);
  begin_ = begin;
  end_ = end;
  columnar_ = PlanColumnar(depth);
  return columnar_;
}

bool RowEncoder::Fill(std::span<std::byte> out) {
  if (!columnar_) {
    pickled_.Fill(out);
    return true;
  }
  bool filled = ListSize(rows_.ptr()) >= end_ && builder_->Begin(out).ok();
  if (filled && begin_ != end_) {
    std::vector<PyObject*> scratch;
    filled =
        FillNode(SequenceItems(rows_.ptr(), true, scratch).subspan(begin_, end_ - begin_), root_);
  }
  if (filled) return true;
  columnar_ = false;
  PlanPickle();
  return false;
}

const NumpyTypes* RowEncoder::numpy() {
  if (!numpy_ && ImportedModule("numpy").is_valid()) numpy_.emplace();
  return numpy_ ? &*numpy_ : nullptr;
}

PyTypeObject* RowEncoder::spark_row() {
  if (!spark_row_.is_valid()) {
    const nb::object types = ImportedModule("pyspark.sql.types");
    if (types.is_valid()) spark_row_ = types.attr("Row");
  }
  return reinterpret_cast<PyTypeObject*>(spark_row_.ptr());
}

}  // namespace tfos::python
