#include "columns/pickle/pickle_columns.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text/utf8.h"
#include "chunk/row_structure.h"

namespace tfos::columns {
namespace {

/// After so many refusals in a row ...
constexpr std::uint32_t kPatience = 4;
/// ... only one chunk of so many is tried: rows may have changed with the next epoch.
constexpr std::uint32_t kTriedOneOf = 32;

bool IsNumber(PickleKind kind) {
  return kind == PickleKind::kBool || kind == PickleKind::kInt || kind == PickleKind::kFloat;
}

bool IsSequence(PickleKind kind) { return kind == PickleKind::kList || kind == PickleKind::kTuple; }

chunk::DType NumberDType(PickleKind kind) {
  if (kind == PickleKind::kFloat) return chunk::DType::kFloat64;
  return kind == PickleKind::kInt ? chunk::DType::kInt64 : chunk::DType::kBool;
}

/// The dtype of the run's numbers if all its items are numbers of one type, else kNone.
chunk::DType NumbersOf(const PickleRun& run) {
  switch (run.form) {
    case PickleRun::Form::kFloats:
      return chunk::DType::kFloat64;
    case PickleRun::Form::kInts:
      return chunk::DType::kInt64;
    case PickleRun::Form::kValues:
      break;
  }
  const PickleKind kind = run.values[0].kind;
  const std::span<const PickleValue> values(run.values, run.size);
  const bool all = IsNumber(kind) && std::all_of(values.begin(), values.end(),
                                                 [&](const auto& v) { return v.kind == kind; });
  return all ? NumberDType(kind) : chunk::DType::kNone;
}

template <typename Visit>
bool AllRuns(const PickleSequence& items, Visit visit) {
  if (items.size == 0) return true;
  for (const PickleRun* run = &items.first; run != nullptr; run = run->next) {
    if (!visit(*run)) return false;
  }
  return true;
}

bool AllNumbersOf(const PickleSequence& items, chunk::DType dtype) {
  return AllRuns(items, [&](const PickleRun& run) { return NumbersOf(run) == dtype; });
}

template <typename T>
std::byte* Store(std::byte* to, const T& value) {
  chunk::StoreAt(to, value);
  return to + sizeof value;
}

/// Writes the numbers of a run, which are of `dtype`; returns what follows them.
std::byte* WriteNumbers(const PickleRun& run, chunk::DType dtype, std::byte* to) {
  switch (run.form) {
    case PickleRun::Form::kFloats:
      for (std::uint64_t i = 0; i < run.size; ++i) {
        to = Store(to, run.Float(i));
      }
      return to;
    case PickleRun::Form::kInts:
      std::memcpy(to, run.ints, run.size * sizeof(std::int64_t));
      return to + run.size * sizeof(std::int64_t);
    case PickleRun::Form::kValues:
      break;
  }
  const std::span<const PickleValue> values(run.values, run.size);
  if (dtype == chunk::DType::kBool) {
    for (const PickleValue& value : values) *to++ = static_cast<std::byte>(value.number);
  } else if (dtype == chunk::DType::kInt64) {
    for (const PickleValue& value : values) to = Store(to, value.number);
  } else {
    for (const PickleValue& value : values) to = Store(to, value.real);
  }
  return to;
}

std::byte* WriteNumbers(const PickleSequence& items, chunk::DType dtype, std::byte* to) {
  AllRuns(items, [&](const PickleRun& run) {
    to = WriteNumbers(run, dtype, to);
    return true;
  });
  return to;
}

/// One field of all rows.
struct Cells {
  std::span<const PickleValue* const> rows;  ///< Of each row: its fields.
  std::size_t index = 0;

  std::size_t size() const { return rows.size(); }
  const PickleValue& operator[](std::size_t row) const { return rows[row][index]; }
};

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

/// The rows of one chunk on their way to columns. Every planning step returns whether the rows are
/// what RowEncoder takes for columns and BatchReader for flat ones; nothing can fail after that.
class Rows {
 public:
  Rows(PickleReader& reader, std::uint64_t pickle_bytes)
      : reader_(reader),
        budget_(PickleColumns::kFreeGrowthBytes + PickleColumns::kMostGrowth * pickle_bytes) {}

  bool Add(const PickleValue& batch) {
    if (batch.kind != PickleKind::kList || batch.items->size > kMaxRows - count_) return false;
    count_ += batch.items->size;
    if (batch.items->size != 0) batches_.push_back(batch.items);
    return true;
  }

  bool Plan() {
    if (count_ == 0) return PlanBuilder();  // A chunk without rows has no columns.
    return (RowsAreNumbers() ? PlanRowsOfNumbers() : PlanRowsOfValues()) && PlanBuilder();
  }

  /// After Plan: bytes that the chunk needs.
  std::uint64_t bytes() const { return builder_->bytes(); }

  Status Fill(std::span<std::byte> out) {
    TFOS_RETURN_IF_ERROR(builder_->Begin(out));
    if (rows_.empty() && count_ != 0) {
      std::byte* to = builder_->data(0).data();
      for (const PickleSequence* batch : batches_) to = WriteNumbers(*batch, specs_[0].dtype, to);
      return Status::Ok();
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) FillColumn(i);
    return Status::Ok();
  }

 private:
  static constexpr auto kMaxRows = static_cast<std::uint64_t>(chunk::kMaxChunkRows);

  bool Spend(std::uint64_t bytes) {
    if (bytes > budget_) return false;
    budget_ -= bytes;
    return true;
  }

  // Rows that are numbers need no list of them.

  const PickleValue* FirstRow() const {
    const PickleRun& run = batches_[0]->first;
    return run.form == PickleRun::Form::kValues ? run.values : nullptr;
  }

  bool RowsAreNumbers() const { return FirstRow() == nullptr || IsNumber(FirstRow()->kind); }

  bool PlanRowsOfNumbers() {
    const chunk::DType dtype = NumbersOf(batches_[0]->first);
    const auto fits = [&](const PickleSequence* batch) { return AllNumbersOf(*batch, dtype); };
    if (dtype == chunk::DType::kNone || !Spend(count_ * chunk::DTypeBytes(dtype)) ||
        !std::all_of(batches_.begin(), batches_.end(), fits)) {
      return false;
    }
    root_.kind = dtype == chunk::DType::kFloat64 ? chunk::RowNodeKind::kFloat
                 : dtype == chunk::DType::kInt64 ? chunk::RowNodeKind::kInt
                                                 : chunk::RowNodeKind::kBool;
    specs_.push_back({.dtype = dtype, .shape = {}, .values = count_, .name = {}});
    return true;
  }

  bool PlanRowsOfValues() {
    if (!Spend(count_)) return false;
    rows_.reserve(count_);
    for (const PickleSequence* batch : batches_) {
      const bool values = AllRuns(*batch, [&](const PickleRun& run) {
        if (run.form != PickleRun::Form::kValues) return false;
        for (std::uint64_t i = 0; i < run.size; ++i) rows_.push_back(run.values + i);
        return true;
      });
      if (!values) return false;
    }
    const PickleKind kind = rows_[0]->kind;
    if (IsSequence(kind)) return PlanRowsOfSequences(kind);
    if (kind == PickleKind::kDict) return PlanDicts();
    if (kind == PickleKind::kSparkRow) return PlanSparkRows();
    return PlanColumn(Cells{.rows = rows_}, root_);
  }

  // Rows of fields: `rows_` then points to the first field of each.

  bool PlanRowsOfSequences(PickleKind kind) {
    const auto filled = std::find_if(rows_.begin(), rows_.end(), [&](const PickleValue* row) {
      return row->kind != kind || row->items->size != 0;
    });
    if (filled == rows_.end() || (*filled)->kind != kind) return false;
    const PickleSequence& sample = *(*filled)->items;
    if (!Spend(sample.size)) return false;
    const chunk::DType numbers = NumbersOf(sample.first);
    if (numbers != chunk::DType::kNone && AllNumbersOf(sample, numbers)) {
      return PlanColumn(Cells{.rows = rows_}, root_);
    }
    root_.kind = kind == PickleKind::kList ? chunk::RowNodeKind::kList : chunk::RowNodeKind::kTuple;
    return TakeFields(kind, sample.size, [](const PickleValue& row) { return row.items; }) &&
           PlanFields(sample.size, 0, 1);
  }

  bool PlanDicts() {
    root_.kind = chunk::RowNodeKind::kDict;
    const PickleValue* const first = reader_.Values(*rows_[0]->items);
    const std::size_t keys = rows_[0]->items->size / 2;
    if (first == nullptr || keys == 0 || keys > chunk::kMaxChunkColumns) return false;
    for (std::size_t i = 0; i < keys; ++i) {
      if (!AddKey(first[2 * i])) return false;
    }
    // A key that is set again keeps its place and changes its value.
    const std::set<std::string_view> different(root_.keys.begin(), root_.keys.end());
    if (different.size() != keys) return false;
    const auto same_keys = [&](const PickleValue* fields) {
      for (std::size_t i = 0; i < keys; ++i) {
        if (!SameKey(fields[2 * i], first[2 * i])) return false;
      }
      return true;
    };
    return TakeFields(PickleKind::kDict, 2 * keys,
                      [](const PickleValue& row) { return row.items; }) &&
           Spend(keys * rows_.size()) && std::all_of(rows_.begin(), rows_.end(), same_keys) &&
           PlanFields(keys, 1, 2);
  }

  bool PlanSparkRows() {
    root_.kind = chunk::RowNodeKind::kSparkRow;
    const PickleRow& first = *rows_[0]->row;
    PickleSequence* const names = NamesOf(first);
    if (names == nullptr || names->size == 0 || names->size > chunk::kMaxChunkColumns) return false;
    const PickleValue* const keys = reader_.Values(*names);
    if (keys == nullptr) return false;
    root_.fields =
        first.fields.kind == PickleKind::kList ? chunk::RowFields::kList : chunk::RowFields::kRow;
    for (std::size_t i = 0; i < names->size; ++i) {
      if (!AddKey(keys[i])) return false;
    }
    const auto same_names = [&](const PickleValue* row) {
      return row->kind == PickleKind::kSparkRow && row->row->fields.kind == first.fields.kind &&
             SameNames(NamesOf(*row->row), *names);
    };
    return std::all_of(rows_.begin(), rows_.end(), same_names) &&
           TakeFields(PickleKind::kSparkRow, names->size,
                      [](const PickleValue& row) { return row.row->values; }) &&
           PlanFields(names->size, 0, 1);
  }

  static PickleSequence* NamesOf(const PickleRow& row) {
    switch (row.fields.kind) {
      case PickleKind::kList:
        return row.fields.items;
      case PickleKind::kSparkRow:
        return row.fields.row->values;
      default:
        return nullptr;
    }
  }

  bool SameNames(PickleSequence* names, PickleSequence& wanted) {
    if (names == &wanted) return true;  // The rows of one pickle may share them.
    if (names == nullptr || names->size != wanted.size || !Spend(names->size)) return false;
    const PickleValue* const values = reader_.Values(*names);
    if (values == nullptr) return false;
    for (std::size_t i = 0; i < names->size; ++i) {
      if (!SameKey(values[i], reader_.Values(wanted)[i])) return false;
    }
    return true;
  }

  bool AddKey(const PickleValue& key) {
    if (key.kind != PickleKind::kText || !Spend(key.size) || !IsUtf8(key.text())) return false;
    root_.keys.emplace_back(key.text());
    return true;
  }

  /// Whether a key is `wanted`, which is one. In one pickle equal keys are mostly one object.
  bool SameKey(const PickleValue& key, const PickleValue& wanted) {
    if (key.kind != PickleKind::kText || key.size != wanted.size) return false;
    return key.bytes == wanted.bytes || (Spend(key.size) && key.text() == wanted.text());
  }

  /// Replaces each row, all of which must be of `kind` and have `count` items, by its items.
  template <typename ItemsOf>
  bool TakeFields(PickleKind kind, std::size_t count, ItemsOf items_of) {
    for (const PickleValue*& row : rows_) {
      if (row->kind != kind) return false;
      PickleSequence& items = *items_of(*row);
      if (items.size != count) return false;
      row = reader_.Values(items);
      if (row == nullptr) return false;
    }
    return true;
  }

  bool PlanFields(std::size_t fields, std::size_t first, std::size_t step) {
    if (fields > chunk::kMaxChunkColumns || !Spend(fields * count_)) return false;
    root_.children.resize(fields);
    for (std::size_t i = 0; i < fields; ++i) {
      if (!PlanColumn({.rows = rows_, .index = first + step * i}, root_.children[i])) return false;
    }
    return true;
  }

  // One column each.

  bool PlanColumn(Cells cells, chunk::RowNode& node) {
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

  bool PlanScalars(Cells cells, chunk::DType dtype) {
    const PickleValue& first = cells[0];
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].kind != first.kind || cells[i].dtype != first.dtype) return false;
    }
    specs_.push_back({.dtype = dtype, .shape = {}, .values = count_, .name = {}});
    return Spend(count_ * chunk::DTypeBytes(dtype));
  }

  bool PlanStrings(Cells cells, chunk::ColumnEncoding encoding) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const PickleValue& value = cells[i];
      if (value.kind != cells[0].kind || !Spend(value.size + sizeof bytes) ||
          (encoding == chunk::ColumnEncoding::kText && !IsUtf8(value.text()))) {
        return false;
      }
      bytes += value.size;
    }
    specs_.push_back(
        {.encoding = encoding, .shape = {}, .values = count_, .data_bytes = bytes, .name = {}});
    return true;
  }

  /// Adds the column of sequences or arrays of numbers: a tensor if all have one length.
  void AddLists(chunk::DType dtype, bool ragged, std::uint64_t length, std::uint64_t elements) {
    chunk::ColumnSpec spec{.dtype = dtype, .shape = {}, .values = count_, .name = {}};
    if (ragged) {
      spec.encoding = chunk::ColumnEncoding::kRagged;
      spec.data_bytes = elements * chunk::DTypeBytes(dtype);
    } else {
      spec.shape = {length};
    }
    specs_.push_back(std::move(spec));
  }

  bool PlanNumberSequences(Cells cells) {
    chunk::DType dtype = chunk::DType::kNone;  // Until one has numbers.
    bool ragged = false;
    std::uint64_t elements = 0;
    const PickleKind kind = cells[0].kind;
    const std::uint64_t length = cells[0].items->size;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].kind != kind) return false;
      const PickleSequence& items = *cells[i].items;
      // Before they are looked at: there may be far more references than objects.
      if (!Spend((items.size + 1) * sizeof(std::uint64_t))) return false;
      ragged = ragged || items.size != length;
      elements += items.size;
      if (items.size == 0) continue;
      if (dtype == chunk::DType::kNone) dtype = NumbersOf(items.first);
      if (dtype == chunk::DType::kNone || !AllNumbersOf(items, dtype)) return false;
    }
    if (dtype == chunk::DType::kNone) return false;
    AddLists(dtype, ragged, length, elements);
    return true;
  }

  bool PlanArrays(Cells cells, chunk::RowNode& node) {
    const PickleArray& first = *cells[0].array;
    const chunk::DType dtype = first.dtype;
    if (dtype == chunk::DType::kNone) return false;
    bool ragged = false;
    std::uint64_t elements = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].kind != PickleKind::kNumpyArray) return false;
      const PickleArray& array = *cells[i].array;
      if (array.dtype != dtype || array.rank != first.rank ||
          !Spend(array.data.size() + sizeof elements)) {
        return false;
      }
      ragged = ragged || !SameShape(array, first);
      elements += array.data.size() / chunk::DTypeBytes(dtype);
    }
    if (first.rank == 1) {
      AddLists(dtype, ragged, first.shape[0], elements);
      node.kind = ragged ? chunk::RowNodeKind::kNumpyRagged : chunk::RowNodeKind::kNumpyArray;
      return true;
    }
    node.kind = chunk::RowNodeKind::kNumpyArray;
    specs_.push_back({.dtype = dtype,
                      .shape = {first.shape, first.shape + first.rank},
                      .values = count_,
                      .name = {}});
    return !ragged;
  }

  bool PlanBuilder() {
    std::string structure;
    chunk::AppendRowStructure(root_, structure);
    builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(count_),
                     std::move(structure));
    for (const chunk::ColumnSpec& spec : specs_) builder_->AddColumn(spec);
    return builder_->Plan().ok();
  }

  void FillColumn(std::size_t column) {
    const Cells cells = cells_[column];
    const chunk::ColumnSpec& spec = specs_[column];
    std::byte* const begin = builder_->data(column).data();
    std::byte* to = begin;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      to = WriteCell(cells[i], spec.dtype, to);
      const auto end = static_cast<std::uint64_t>(to - begin);
      if (chunk::HoldsStrings(spec.encoding)) {
        builder_->SetStringBoundary(column, i + 1, end);
      } else if (chunk::IsRagged(spec.encoding)) {
        builder_->SetBoundary(column, i + 1, end / chunk::DTypeBytes(spec.dtype));
      }
    }
  }

  static std::byte* WriteCell(const PickleValue& value, chunk::DType dtype, std::byte* to) {
    switch (value.kind) {
      case PickleKind::kBool:
        *to = static_cast<std::byte>(value.number);
        return to + 1;
      case PickleKind::kInt:
        return Store(to, value.number);
      case PickleKind::kFloat:
        return Store(to, value.real);
      case PickleKind::kList:
      case PickleKind::kTuple:
        return WriteNumbers(*value.items, dtype, to);
      default:
        return WriteBytes(BytesOf(value), to);
    }
  }

  PickleReader& reader_;
  std::uint64_t budget_;
  std::uint64_t count_ = 0;
  std::vector<const PickleSequence*> batches_;  ///< Those that have rows.
  /// Of each row, the row itself or its first field. Empty for rows that are numbers.
  std::vector<const PickleValue*> rows_;
  chunk::RowNode root_;
  std::vector<Cells> cells_;              ///< Of each column.
  std::vector<chunk::ColumnSpec> specs_;  ///< Likewise.
  std::optional<chunk::ChunkBuilder> builder_;
};

}  // namespace

Result<std::optional<PooledBuffer>> PickleColumns::Convert(const chunk::ChunkView& chunk) {
  if (refused_in_a_row_ >= kPatience && ++refused_in_a_row_ % kTriedOneOf != 0) {
    return std::optional<PooledBuffer>();
  }
  Result<std::optional<PooledBuffer>> converted = Try(chunk);
  reader_.Reset();
  if (converted.ok()) refused_in_a_row_ = *converted ? 0 : refused_in_a_row_ + 1;
  return converted;
}

Result<std::optional<PooledBuffer>> PickleColumns::Try(const chunk::ChunkView& chunk) {
  const chunk::ColumnView& pickles = chunk.columns()[0];
  Rows rows(reader_, pickles.data.size());
  for (std::uint64_t i = 0; i < pickles.values; ++i) {
    const std::optional<PickleValue> batch = reader_.Read(pickles.Value(i));
    if (!batch || !rows.Add(*batch)) return std::optional<PooledBuffer>();
  }
  if (!rows.Plan()) return std::optional<PooledBuffer>();
  PooledBuffer columns = pool_.Allocate(rows.bytes());
  if (columns.bytes.size() != rows.bytes()) {
    return Status(ErrorKind::kRetryLater,
                  fmt::format("no memory for {} bytes of columns", rows.bytes()));
  }
  TFOS_RETURN_IF_ERROR(rows.Fill(columns.bytes));
  return std::optional<PooledBuffer>(std::move(columns));
}

}  // namespace tfos::columns
