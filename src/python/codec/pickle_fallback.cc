#include "python/codec/pickle_fallback.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace tfos::python {
namespace {

// Smaller buffers cost more as parts of their own than inside the pickle.
constexpr Py_ssize_t kOutOfBandBytes = 64 << 10;

/// Whether this is what pickle raises for an object that it can't take by reference.
bool IsRefusal(const nb::python_error& error) {
  return error.matches(nb::module_::import_("pickle").attr("PicklingError")) ||
         error.matches(PyExc_AttributeError) || error.matches(PyExc_TypeError);
}

}  // namespace

void PickleFallback::Plan(const nb::list& rows, std::size_t begin, std::size_t end) {
  const nb::object some = Checked(
      PyList_GetSlice(rows.ptr(), static_cast<Py_ssize_t>(begin), static_cast<Py_ssize_t>(end)));
  Pickle(some);
  auto bytes = static_cast<std::uint64_t>(PyBytes_Size(pickle_.ptr()));
  for (const auto& buffer : buffers_) bytes += buffer->bytes().size();
  builder_.emplace(chunk::ChunkKind::kPickledRows, static_cast<std::int64_t>(ListSize(some.ptr())));
  builder_->AddColumn({.encoding = chunk::ColumnEncoding::kOpaque,
                       .shape = {},
                       .values = 1 + buffers_.size(),
                       .data_bytes = bytes,
                       .name = {}});
  if (const auto planned = builder_->Plan(); !planned.ok()) {
    throw nb::value_error(planned.status().ToString().c_str());
  }
}

void PickleFallback::Pickle(const nb::object& rows) {
  try {
    pickle_ = Dumps("pickle", rows);
    return;
  } catch (const nb::python_error& refused) {
    if (!IsRefusal(refused)) throw;
    // Classes and functions of the program itself travel by value only.
    try {
      pickle_ = Dumps("cloudpickle", rows);
    } catch (const nb::python_error& also) {
      PyException_SetCause(also.value().ptr(), refused.value().inc_ref().ptr());
      throw;
    }
  }
}

nb::object PickleFallback::Dumps(const char* module, const nb::object& rows) {
  buffers_.clear();
  const nb::object take_buffer = nb::cpp_function([this](nb::handle buffer) {
    auto view = std::make_unique<BufferView>(buffer, PyBUF_SIMPLE);
    if (!view->acquired()) PyErr_Clear();  // Not contiguous: left to the pickle itself.
    if (!view->acquired() || view->view().len < kOutOfBandBytes) return true;
    buffers_.push_back(std::move(view));
    return false;
  });
  return nb::module_::import_(module).attr("dumps")(rows, nb::arg("protocol") = 5,
                                                    nb::arg("buffer_callback") = take_buffer);
}

void PickleFallback::Fill(std::span<std::byte> out) {
  if (const Status begun = builder_->Begin(out); !begun.ok()) {
    throw std::runtime_error(begun.ToString());
  }
  std::byte* const start = builder_->data(0).data();
  std::byte* to = start;
  std::uint64_t index = 0;
  const auto append = [&](const void* data, std::size_t size) {
    std::memcpy(to, data, size);
    to += size;
    builder_->SetStringBoundary(0, ++index, static_cast<std::uint64_t>(to - start));
  };
  append(PyBytes_AsString(pickle_.ptr()), static_cast<std::size_t>(PyBytes_Size(pickle_.ptr())));
  for (const auto& buffer : buffers_) append(buffer->bytes().data(), buffer->bytes().size());
}

}  // namespace tfos::python
