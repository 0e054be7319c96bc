#include "columns/pickle/cell_columns.h"

#include <algorithm>
#include <cstring>

#include "base/memory/unaligned.h"
#include "base/text/utf8.h"
#include "columns/pickle/number_runs.h"

namespace tfos::columns {
namespace {

bool SameShape(const PickleArray& a, const PickleArray& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

/// Appends what lies in a value's bytes.
std::byte* WriteBytes(std::span<const std::byte> bytes, std::byte* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

std::span<const std::byte> BytesOf(const PickleValue& value) {
  if (value.kind == PickleKind::kNumpyArray) return value.array->data;
  return {value.bytes, value.size};
}

std::byte* WriteCell(const PickleValue& value, chunk::DType dtype, std::byte* to) {
  switch (value.kind) {
    case PickleKind::kBool:
      *to = static_cast<std::byte>(value.number);
      return to + 1;
    case PickleKind::kInt:
      Store(value.number, to);
      return to + sizeof value.number;
    case PickleKind::kFloat:
      Store(value.real, to);
      return to + sizeof value.real;
    case PickleKind::kList:
    case PickleKind::kTuple:
      return WriteNumbers(*value.items, dtype, to);
    default:
      return WriteBytes(BytesOf(value), to);
  }
}

}  // namespace

bool CellColumns::Plan(Cells cells, chunk::RowNode& node) {
  cells_.push_back(cells);
  switch (cells[0].kind) {
    case PickleKind::kBool:
      node.kind = chunk::RowNodeKind::kBool;
      return PlanScalars(cells, chunk::DType::kBool);
    case PickleKind::kInt:
      node.kind = chunk::RowNodeKind::kInt;
      return PlanScalars(cells, chunk::DType::kInt64);
    case PickleKind::kFloat:
      node.kind = chunk::RowNodeKind::kFloat;
      return PlanScalars(cells, chunk::DType::kFloat64);
    case PickleKind::kNumpyScalar:
      node.kind = chunk::RowNodeKind::kNumpyScalar;
      return PlanScalars(cells, cells[0].dtype);
    case PickleKind::kText:
      node.kind = chunk::RowNodeKind::kText;
      return PlanStrings(cells, chunk::ColumnEncoding::kText);
    case PickleKind::kBytes:
      node.kind = chunk::RowNodeKind::kBytes;
      return PlanStrings(cells, chunk::ColumnEncoding::kBytes);
    case PickleKind::kList:
      node.kind = chunk::RowNodeKind::kNumberList;
      return PlanNumberSequences(cells);
    case PickleKind::kTuple:
      node.kind = chunk::RowNodeKind::kNumberTuple;
      return PlanNumberSequences(cells);
    case PickleKind::kNumpyArray:
      return PlanArrays(cells, node);
    default:
      return false;
  }
}

bool CellColumns::PlanScalars(Cells cells, chunk::DType dtype) {
  const PickleValue& first = cells[0];
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].kind != first.kind || cells[i].dtype != first.dtype) return false;
  }
  specs_.push_back({.dtype = dtype, .shape = {}, .values = cells.size(), .name = {}});
  return budget_.Spend(cells.size() * chunk::DTypeBytes(dtype));
}

bool CellColumns::PlanStrings(Cells cells, chunk::ColumnEncoding encoding) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const PickleValue& value = cells[i];
    if (value.kind != cells[0].kind || !budget_.Spend(value.size + sizeof bytes) ||
        (encoding == chunk::ColumnEncoding::kText && !IsUtf8(value.text()))) {
      return false;
    }
    bytes += value.size;
  }
  specs_.push_back(
      {.encoding = encoding, .shape = {}, .values = cells.size(), .data_bytes = bytes, .name = {}});
  return true;
}

void CellColumns::AddLists(Cells cells, chunk::DType dtype, bool ragged, std::uint64_t length,
                           std::uint64_t elements) {
  chunk::ColumnSpec spec{.dtype = dtype, .shape = {}, .values = cells.size(), .name = {}};
  if (ragged) {
    spec.encoding = chunk::ColumnEncoding::kRagged;
    spec.data_bytes = elements * chunk::DTypeBytes(dtype);
  } else {
    spec.shape = {length};
  }
  specs_.push_back(std::move(spec));
}

bool CellColumns::PlanNumberSequences(Cells cells) {
  chunk::DType dtype = chunk::DType::kNone;  // Until one has numbers.
  bool ragged = false;
  std::uint64_t elements = 0;
  const PickleKind kind = cells[0].kind;
  const std::uint64_t length = cells[0].items->size;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].kind != kind) return false;
    const PickleSequence& items = *cells[i].items;
    // Before they are looked at: there may be far more references than objects.
    if (!budget_.Spend((items.size + 1) * sizeof(std::uint64_t))) return false;
    ragged = ragged || items.size != length;
    elements += items.size;
    if (items.size == 0) continue;
    if (dtype == chunk::DType::kNone) dtype = NumbersOf(items.first);
    if (dtype == chunk::DType::kNone || !AllNumbersOf(items, dtype)) return false;
  }
  if (dtype == chunk::DType::kNone) return false;
  AddLists(cells, dtype, ragged, length, elements);
  return true;
}

bool CellColumns::PlanArrays(Cells cells, chunk::RowNode& node) {
  const PickleArray& first = *cells[0].array;
  const chunk::DType dtype = first.dtype;
  if (dtype == chunk::DType::kNone) return false;
  bool ragged = false;
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].kind != PickleKind::kNumpyArray) return false;
    const PickleArray& array = *cells[i].array;
    if (array.dtype != dtype || array.rank != first.rank ||
        !budget_.Spend(array.data.size() + sizeof elements)) {
      return false;
    }
    ragged = ragged || !SameShape(array, first);
    elements += array.data.size() / chunk::DTypeBytes(dtype);
  }
  if (first.rank == 1) {
    AddLists(cells, dtype, ragged, first.shape[0], elements);
    node.kind = ragged ? chunk::RowNodeKind::kNumpyRagged : chunk::RowNodeKind::kNumpyArray;
    return true;
  }
  node.kind = chunk::RowNodeKind::kNumpyArray;
  specs_.push_back({.dtype = dtype,
                    .shape = {first.shape, first.shape + first.rank},
                    .values = cells.size(),
                    .name = {}});
  return !ragged;
}

void CellColumns::Fill(chunk::ChunkBuilder& builder) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) FillColumn(i, builder);
}

void CellColumns::FillColumn(std::size_t column, chunk::ChunkBuilder& builder) const {
  const Cells cells = cells_[column];
  const chunk::ColumnSpec& spec = specs_[column];
  std::byte* const begin = builder.data(column).data();
  std::byte* to = begin;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    to = WriteCell(cells[i], spec.dtype, to);
    const auto end = static_cast<std::uint64_t>(to - begin);
    if (chunk::HoldsStrings(spec.encoding)) {
      builder.SetStringBoundary(column, i + 1, end);
    } else if (chunk::IsRagged(spec.encoding)) {
      builder.SetBoundary(column, i + 1, end / chunk::DTypeBytes(spec.dtype));
    }
  }
}

}  // namespace tfos::columns
