#include <nanobind/nanobind.h>

#include "python/bindings.h"
#include "python/errors.h"
#include "python/row_decoder.h"
#include "python/row_encoder.h"

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

}  // namespace

void BindCodec(nb::module_& module) {
  module.def("encode_rows", &EncodeRows, nb::arg("rows"),
             "The rows of a list as one chunk (docs/formats/chunk.md).");
  module.def("decode_rows", &DecodeRows, nb::arg("chunk"),
             "All rows of a chunk, each exactly the object that was encoded.");
}

}  // namespace tfos::python
