#include "python/codec/result_columns.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/format.h"
#include "python/codec/row_encoder.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

using chunk::ColumnView;
using chunk::ElementRange;
using chunk::RowNode;
using chunk::RowNodeKind;

/// The elements of some values of a column.
ElementRange ElementsOf(const ColumnView& column, std::size_t begin, std::size_t end) {
  if (begin == end) return {};
  return {column.ElementsOf(begin).begin, column.ElementsOf(end - 1).end};
}

}  // namespace

std::optional<ResultColumns> ResultColumns::Open(
    const std::optional<std::vector<std::string>>& names, nb::list columns) {
  ResultColumns opened;
  const NumpyTypes numpy;
  for (std::size_t i = 0; i < nb::len(columns); ++i) {
    const nb::handle column = columns[i];
    const std::size_t rows = nb::len(column);
    if (i == 0) opened.rows_ = rows;
    if (rows != opened.rows_) {
      ThrowStatus(Status(ErrorKind::kBadInput,
                         fmt::format("the columns of these results differ in length: '{}' has {} "
                                     "values and '{}' {}",
                                     (*names)[0], opened.rows_, (*names)[i], rows)));
    }
  }
  if (opened.rows_ == 0) return opened;
  for (const nb::handle column : columns) {
    const bool is_list = IsExactly(column.ptr(), &PyList_Type);
    if (is_list ? !opened.AddList(column) : !opened.AddArray(numpy, column)) return std::nullopt;
  }
  if (names) {
    opened.root_.kind = RowNodeKind::kDict;
    opened.root_.keys = *names;
  } else {
    RowNode only = std::move(opened.root_.children[0]);
    opened.root_ = std::move(only);
  }
  chunk::AppendRowStructure(opened.root_, opened.structure_);
  return opened;
}

bool ResultColumns::AddArray(const NumpyTypes& numpy, nb::handle array) {
  const std::optional<chunk::DType> dtype = numpy.FromDType(array.attr("dtype"));
  if (!dtype) return false;
  auto view = std::make_unique<BufferView>(array, PyBUF_ND);
  if (!view->acquired()) {
    PyErr_Clear();  // Not C-contiguous.
    const nb::object contiguous = nb::module_::import_("numpy").attr("ascontiguousarray")(array);
    view = std::make_unique<BufferView>(contiguous, PyBUF_ND);
    if (!view->acquired()) throw nb::python_error();
  }
  const Py_buffer& buffer = view->view();
  ColumnView column;
  column.dtype = *dtype;
  column.values = rows_;
  column.shape.assign(buffer.shape + 1, buffer.shape + buffer.ndim);
  column.data = view->bytes();
  column.value_bytes = column.data.size() / rows_;
  column.elements = column.data.size() / chunk::DTypeBytes(*dtype);
  column.value_elements = column.elements / rows_;
  RowNode node;
  node.kind = column.shape.empty() ? RowNodeKind::kNumpyScalar : RowNodeKind::kNumpyArray;
  root_.children.push_back(std::move(node));
  views_.push_back(std::move(column));
  arrays_.push_back(std::move(view));
  return true;
}

bool ResultColumns::AddList(nb::handle list) {
  RowEncoder encoder;
  if (!encoder.PlanColumn(nb::borrow<nb::list>(list), 0, rows_)) return false;
  auto bytes = std::make_unique<AlignedBuffer>(encoder.bytes());
  if (bytes->size() != encoder.bytes()) throw std::bad_alloc();
  if (!encoder.Fill(bytes->bytes())) return false;
  const chunk::ChunkView chunk = ValueOrThrow(chunk::ChunkView::Parse(bytes->bytes()));
  root_.children.push_back(ValueOrThrow(chunk::ParseRowStructure(chunk)));
  for (const ColumnView& column : chunk.columns()) views_.push_back(column);
  encoded_.push_back(std::move(bytes));
  return true;
}

void ResultColumns::Plan(std::size_t begin, std::size_t end) {
  begin_ = begin;
  end_ = end;
  builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(end - begin), structure_);
  for (const ColumnView& column : views_) {
    const ElementRange elements = ElementsOf(column, begin, end);
    const bool strings = chunk::HoldsStrings(column.encoding);
    builder_->AddColumn({.encoding = column.encoding,
                         .dtype = column.dtype,
                         .shape = column.shape,
                         .values = end - begin,
                         .strings = strings ? elements.size() : 0,
                         .data_bytes = column.BytesOf(elements).size(),
                         .name = {}});
  }
  ValueOrThrow(builder_->Plan());
}

bool ResultColumns::Fill(std::span<std::byte> out) {
  ThrowIfError(builder_->Begin(out));
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const ColumnView& column = views_[i];
    const ElementRange elements = ElementsOf(column, begin_, end_);
    const std::span<const std::byte> from = column.BytesOf(elements);
    if (!from.empty()) std::memcpy(builder_->data(i).data(), from.data(), from.size());
    for (std::size_t row = begin_; chunk::IsRagged(column.encoding) && row < end_; ++row) {
      builder_->SetBoundary(i, row - begin_ + 1, column.Boundary(row + 1) - elements.begin);
    }
    for (std::uint64_t k = 0; chunk::HoldsStrings(column.encoding) && k < elements.size(); ++k) {
      const std::uint64_t end = column.StringBoundary(elements.begin + k + 1);
      builder_->SetStringBoundary(i, k + 1, end - column.StringBoundary(elements.begin));
    }
  }
  return true;
}

}  // namespace tfos::python
