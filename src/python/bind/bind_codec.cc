#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "columns/pickle/pickle_columns.h"
#include "python/bind/bindings.h"
#include "python/codec/row_decoder.h"
#include "python/codec/row_encoder.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

nb::bytes EncodeRows(nb::list rows) {
  RowEncoder encoder;
  encoder.Plan(rows, 0, nb::len(rows));
  while (true) {
    nb::object out =
        Checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(encoder.bytes())));
    auto* data = reinterpret_cast<std::byte*>(PyBytes_AsString(out.ptr()));
    if (encoder.Fill({data, encoder.bytes()})) return nb::borrow<nb::bytes>(out);
  }
}

nb::list DecodeRows(nb::handle chunk) {
  const BufferView bytes(chunk, PyBUF_SIMPLE);
  if (!bytes.acquired()) throw nb::python_error();
  return DecodeAll(bytes.bytes());
}

std::optional<nb::bytes> ColumnsOfPickles(nb::handle chunk) {
  const BufferView bytes(chunk, PyBUF_SIMPLE);
  if (!bytes.acquired()) throw nb::python_error();
  const auto view = ValueOrThrow(chunk::ChunkView::Parse(bytes.bytes()));
  if (view.kind() != chunk::ChunkKind::kPickledBatches) {
    ThrowStatus(Status(ErrorKind::kBadInput, "the chunk holds no pickled batches"));
  }
  BufferPool pool;
  columns::PickleColumns pickles(pool);
  const auto columns = ValueOrThrow(WithoutGil([&] { return pickles.Convert(view); }));
  if (!columns) return std::nullopt;
  return nb::bytes(columns->bytes.data(), columns->bytes.size());
}

}  // namespace

void BindCodec(nb::module_& module) {
  module.def("encode_rows", &EncodeRows, nb::arg("rows"),
             "The rows of a list as one chunk (docs/formats/chunk.md).");
  module.def("decode_rows", &DecodeRows, nb::arg("chunk"),
             "All rows of a chunk, each exactly the object that was encoded.");
  module.def("columns_of_pickles", &ColumnsOfPickles, nb::arg("chunk"),
             "The columnar chunk that batches of the dataset are cut from where a chunk of pickled "
             "batches comes in; None where Python must read that.");
}

}  // namespace tfos::python
