#include "columns/pickle/pickle_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text/utf8.h"
#include "chunk/row_structure.h"
#include "columns/pickle/cell_columns.h"
#include "columns/pickle/number_runs.h"

namespace tfos::columns {
namespace {

/// After so many refusals in a row ...
constexpr std::uint32_t kPatience = 4;
/// ... only one chunk of so many is tried: rows may have changed with the next epoch.
constexpr std::uint32_t kTriedOneOf = 32;

bool IsSequence(PickleKind kind) { return kind == PickleKind::kList || kind == PickleKind::kTuple; }

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
    if (!numbers_) {
      columns_.Fill(*builder_);
      return Status::Ok();
    }
    std::byte* to = builder_->data(0).data();
    for (const PickleSequence* batch : batches_) to = WriteNumbers(*batch, numbers_->dtype, to);
    return Status::Ok();
  }

 private:
  static constexpr auto kMaxRows = static_cast<std::uint64_t>(chunk::kMaxChunkRows);

  // Rows that are numbers need no list of them.

  const PickleValue* FirstRow() const {
    const PickleRun& run = batches_[0]->first;
    return run.form == PickleRun::Form::kValues ? run.values : nullptr;
  }

  bool RowsAreNumbers() const { return FirstRow() == nullptr || IsNumber(FirstRow()->kind); }

  bool PlanRowsOfNumbers() {
    const chunk::DType dtype = NumbersOf(batches_[0]->first);
    const auto fits = [&](const PickleSequence* batch) { return AllNumbersOf(*batch, dtype); };
    if (dtype == chunk::DType::kNone || !budget_.Spend(count_ * chunk::DTypeBytes(dtype)) ||
        !std::all_of(batches_.begin(), batches_.end(), fits)) {
      return false;
    }
    root_.kind = dtype == chunk::DType::kFloat64 ? chunk::RowNodeKind::kFloat
                 : dtype == chunk::DType::kInt64 ? chunk::RowNodeKind::kInt
                                                 : chunk::RowNodeKind::kBool;
    numbers_ = {.dtype = dtype, .shape = {}, .values = count_, .name = {}};
    return true;
  }

  bool PlanRowsOfValues() {
    if (!budget_.Spend(count_)) return false;
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
    return columns_.Plan(Cells{.rows = rows_}, root_);
  }

  // Rows of fields: `rows_` then points to the first field of each.

  bool PlanRowsOfSequences(PickleKind kind) {
    const auto filled = std::find_if(rows_.begin(), rows_.end(), [&](const PickleValue* row) {
      return row->kind != kind || row->items->size != 0;
    });
    if (filled == rows_.end() || (*filled)->kind != kind) return false;
    const PickleSequence& sample = *(*filled)->items;
    if (!budget_.Spend(sample.size)) return false;
    const chunk::DType numbers = NumbersOf(sample.first);
    if (numbers != chunk::DType::kNone && AllNumbersOf(sample, numbers)) {
      return columns_.Plan(Cells{.rows = rows_}, root_);
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
           budget_.Spend(keys * rows_.size()) &&
           std::all_of(rows_.begin(), rows_.end(), same_keys) && PlanFields(keys, 1, 2);
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
    if (names == nullptr || names->size != wanted.size || !budget_.Spend(names->size)) return false;
    const PickleValue* const values = reader_.Values(*names);
    if (values == nullptr) return false;
    for (std::size_t i = 0; i < names->size; ++i) {
      if (!SameKey(values[i], reader_.Values(wanted)[i])) return false;
    }
    return true;
  }

  bool AddKey(const PickleValue& key) {
    if (key.kind != PickleKind::kText || !budget_.Spend(key.size) || !IsUtf8(key.text()))
      return false;
    root_.keys.emplace_back(key.text());
    return true;
  }

  /// Whether a key is `wanted`, which is one. In one pickle equal keys are mostly one object.
  bool SameKey(const PickleValue& key, const PickleValue& wanted) {
    if (key.kind != PickleKind::kText || key.size != wanted.size) return false;
    return key.bytes == wanted.bytes || (budget_.Spend(key.size) && key.text() == wanted.text());
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
    if (fields > chunk::kMaxChunkColumns || !budget_.Spend(fields * count_)) return false;
    root_.children.resize(fields);
    for (std::size_t i = 0; i < fields; ++i) {
      if (!columns_.Plan({.rows = rows_, .index = first + step * i}, root_.children[i]))
        return false;
    }
    return true;
  }

  bool PlanBuilder() {
    std::string structure;
    chunk::AppendRowStructure(root_, structure);
    builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(count_),
                     std::move(structure));
    if (numbers_) builder_->AddColumn(*numbers_);
    for (const chunk::ColumnSpec& spec : columns_.specs()) builder_->AddColumn(spec);
    return builder_->Plan().ok();
  }

  PickleReader& reader_;
  Budget budget_;
  std::uint64_t count_ = 0;
  std::vector<const PickleSequence*> batches_;  ///< Those that have rows.
  /// For each row, the row itself or its first field. Empty for rows that are numbers.
  std::vector<const PickleValue*> rows_;
  chunk::RowNode root_;
  std::optional<chunk::ColumnSpec> numbers_;  ///< Of the only column of rows that are numbers.
  CellColumns columns_{budget_};              ///< Of other rows.
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
    return Status(ErrorKind::kNoResources,
                  fmt::format("no memory for {} bytes of columns", rows.bytes()));
  }
  TFOS_RETURN_IF_ERROR(rows.Fill(columns.bytes));
  return std::optional<PooledBuffer>(std::move(columns));
}

}  // namespace tfos::columns
