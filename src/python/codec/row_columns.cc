#include "python/codec/row_columns.h"

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

using chunk::ColumnEncoding;
using chunk::ColumnView;
using chunk::RowNodeKind;

bool IsNamed(RowNodeKind kind) {
  return kind == RowNodeKind::kDict || kind == RowNodeKind::kSparkRow;
}

bool IsSequence(RowNodeKind kind) {
  return kind == RowNodeKind::kList || kind == RowNodeKind::kTuple;
}

bool IsPythonNumbers(RowNodeKind kind) {
  switch (kind) {
    case RowNodeKind::kBool:
    case RowNodeKind::kInt:
    case RowNodeKind::kFloat:
    case RowNodeKind::kNumberList:
    case RowNodeKind::kNumberTuple:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void ThrowBadInput(std::string text) {
  ThrowStatus(Status(ErrorKind::kBadInput, std::move(text)));
}

std::string NameOf(nb::handle type) { return nb::cast<std::string>(type.attr("__name__")); }

/// The names of a Row's fields; none if `row` isn't a Row.
nb::object FieldsOfRow(PyObject* row) {
  if (IsExactly(row, &PyTuple_Type) || !nb::hasattr(row, "__fields__")) return {};
  return nb::getattr(row, "__fields__");
}

}  // namespace

RowColumns::RowColumns(std::vector<std::string> names) : names_(std::move(names)) {
  for (const std::string& name : names_) {
    keys_.push_back(nb::str(name.data(), name.size()));
    columns_.emplace_back(numpy_);
  }
}

void RowColumns::ThrowTooShort(std::size_t fields) const {
  ThrowBadInput(fmt::format("a row has {} fields and input_mapping {} ({})", fields, names_.size(),
                            fmt::join(names_, ", ")));
}

template <typename Add>
void RowColumns::AddWhole(std::size_t count, Add add) {
  try {
    add();
  } catch (...) {
    for (ColumnBuilder& column : columns_) column.Truncate(rows_);
    throw;
  }
  rows_ += count;
}

std::size_t RowColumns::AddFrom(RowDecoder& chunk, std::size_t room) {
  const std::size_t count = std::min(room, chunk.rows_left());
  if (count == 0) return 0;
  const std::vector<Source> sources = SourcesIn(chunk.root());
  AddWhole(count, [&] {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      AddColumn(chunk, sources[i], count, room, columns_[i]);
    }
  });
  chunk.Skip(count);
  return count;
}

std::vector<RowColumns::Source> RowColumns::SourcesIn(const DecodeNode& root) const {
  std::vector<Source> sources;
  if (IsNamed(root.kind)) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto it = std::find_if(root.keys.begin(), root.keys.end(), [&](const nb::object& key) {
        return PyUnicode_Compare(key.ptr(), keys_[i].ptr()) == 0;
      });
      if (it == root.keys.end()) {
        std::vector<std::string> known;
        for (const nb::object& key : root.keys) known.push_back(nb::cast<std::string>(key));
        ThrowBadInput(
            fmt::format("the rows have no column '{}', which input_mapping names; they "
                        "have {}",
                        names_[i], fmt::join(known, ", ")));
      }
      sources.push_back({.node = &root.children[static_cast<std::size_t>(it - root.keys.begin())],
                         .element = std::nullopt});
    }
    return sources;
  }
  if (IsSequence(root.kind)) {
    if (root.children.size() < names_.size()) ThrowTooShort(root.children.size());
    for (std::size_t i = 0; i < names_.size(); ++i) {
      sources.push_back({.node = &root.children[i], .element = std::nullopt});
    }
    return sources;
  }
  const bool numbers = root.column != nullptr && root.column->dtype != chunk::DType::kNone;
  const bool ragged = numbers && root.column->encoding == ColumnEncoding::kRagged;
  if (!numbers || (!ragged && root.column->shape.empty())) {
    ThrowBadInput(
        fmt::format("the rows are single values and have no fields for input_mapping ({})",
                    fmt::join(names_, ", ")));
  }
  if (!ragged && root.column->shape[0] < names_.size()) ThrowTooShort(root.column->shape[0]);
  for (std::size_t i = 0; i < names_.size(); ++i) sources.push_back({.node = &root, .element = i});
  return sources;
}

void RowColumns::AddColumn(RowDecoder& chunk, const Source& source, std::size_t count,
                           std::size_t room, ColumnBuilder& column) {
  const std::size_t first = chunk.next();
  const ColumnView* const view = source.node->column;
  const bool numbers = view != nullptr && view->dtype != chunk::DType::kNone;
  if (numbers && view->encoding == ColumnEncoding::kTensor) {
    DenseValues values{.dtype = view->dtype,
                       .shape = view->shape,
                       .data = view->data.data() + first * view->value_bytes,
                       .stride = view->value_bytes,
                       .count = count,
                       .python_numbers = IsPythonNumbers(source.node->kind)};
    if (source.element) {
      values.data += *source.element * (view->value_bytes / view->shape[0]);
      values.shape = values.shape.subspan(1);
    }
    return column.Add(values, room);
  }
  if (numbers && !source.element) {
    ObjectVector arrays;
    for (std::size_t i = 0; i < count; ++i) {
      arrays.Append(numpy_.CopyOf(view->Value(first + i), view->dtype));
    }
    return column.Add(std::move(arrays));
  }
  ObjectVector values = chunk.Values(*source.node, first, count);
  if (!source.element) return column.Add(std::move(values));
  ObjectVector elements;
  for (std::size_t i = 0; i < count; ++i)
    elements.Append(FieldOf(values.data()[i], *source.element));
  AddValues(std::move(elements), room, column);
}

void RowColumns::AddRows(std::span<PyObject* const> rows, std::size_t room) {
  if (rows.empty()) return;
  AddWhole(rows.size(), [&] {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      ObjectVector values;
      for (PyObject* row : rows) values.Append(FieldOf(row, i));
      AddValues(std::move(values), room, columns_[i]);
    }
  });
}

/// Adds values of any kind: as a dense array if they make one.
void RowColumns::AddValues(ObjectVector values, std::size_t room, ColumnBuilder& column) {
  const std::size_t count = values.size();
  PyObject* const first = values.data()[0];
  if (first == Py_None || IsExactly(first, &PyUnicode_Type) || IsExactly(first, &PyBytes_Type)) {
    return column.Add(std::move(values));
  }
  const nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    SetListItem(list.ptr(), i, nb::borrow(values.data()[i]).release().ptr());
  }
  if (encoder_.PlanIfColumnar(list, 0, count)) {
    const AlignedBuffer bytes(encoder_.bytes());
    if (bytes.size() != encoder_.bytes()) throw std::bad_alloc();
    if (encoder_.Fill({const_cast<std::byte*>(bytes.bytes().data()), bytes.size()})) {
      RowDecoder encoded(bytes.bytes());
      if (encoded.root().column != nullptr) {
        return AddColumn(encoded, {.node = &encoded.root(), .element = std::nullopt}, count, room,
                         column);
      }
    }
  }
  column.Add(std::move(values));
}

nb::object RowColumns::FieldOf(PyObject* row, std::size_t index) {
  if (IsExactly(row, &PyDict_Type)) {
    PyObject* const value = PyDict_GetItemWithError(row, keys_[index].ptr());
    if (value != nullptr) return nb::borrow(value);
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    ThrowBadInput(fmt::format("a row has no key '{}', which input_mapping names", names_[index]));
  }
  if (const nb::object fields = FieldsOfRow(row); fields.is_valid()) {
    const Py_ssize_t position = PySequence_Index(fields.ptr(), keys_[index].ptr());
    if (position >= 0) return Checked(PySequence_GetItem(row, position));
    PyErr_Clear();
    ThrowBadInput(fmt::format("a row has no column '{}', which input_mapping names; it has {}",
                              names_[index], nb::cast<std::string>(nb::repr(fields))));
  }
  const Py_ssize_t size = PySequence_Check(row) != 0 ? PySequence_Size(row) : -1;
  if (size < 0) {
    PyErr_Clear();
    ThrowBadInput(fmt::format("a row is of the type {}, which has no fields for input_mapping ({})",
                              NameOf(nb::handle(row).type()), fmt::join(names_, ", ")));
  }
  if (static_cast<std::size_t>(size) < names_.size()) {
    ThrowTooShort(static_cast<std::size_t>(size));
  }
  return Checked(PySequence_GetItem(row, static_cast<Py_ssize_t>(index)));
}

nb::list RowColumns::Take() {
  nb::list taken;
  for (ColumnBuilder& column : columns_) taken.append(column.Take());
  rows_ = 0;
  return taken;
}

}  // namespace tfos::python
