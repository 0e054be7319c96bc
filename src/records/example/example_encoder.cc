#include "records/example/example_encoder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "arrow/export.h"
#include "base/format.h"
#include "records/example/elements.h"
#include "records/example/value_source.h"

namespace tfos::records {
namespace {

/// What a field with a length before it takes; its number is below 16.
constexpr std::size_t DelimitedBytes(std::size_t bytes) { return 1 + VarintBytes(bytes) + bytes; }

std::byte* BeginDelimited(std::uint32_t field, std::size_t bytes, std::byte* to) {
  *to++ = TagByte(field, WireType::kBytes);
  return WriteVarint(bytes, to);
}

}  // namespace

/// One column, and what its value in the row at hand takes: that is measured first, because each
/// message has its length before it.
class ExampleEncoder::Column {
 public:
  /// `rows` are needed; errors give row 0 of the column the number `row_zero`.
  static Result<std::unique_ptr<Column>> Open(const ArrowSchema& schema, const ArrowArray& array,
                                              std::int64_t rows, std::int64_t row_zero) {
    auto column = std::unique_ptr<Column>(new Column);
    column->name_ = schema.name == nullptr ? "" : schema.name;
    column->row_zero_ = row_zero;
    column->key_ = std::string(1, static_cast<char>(TagByte(kKeyField, WireType::kBytes)));
    std::byte length[kMostVarintBytes];
    const std::byte* const end = WriteVarint(column->name_.size(), length);
    column->key_.append(reinterpret_cast<const char*>(length),
                        static_cast<std::size_t>(end - length));
    column->key_ += column->name_;
    if (array.length < rows) {
      return column->Bad(fmt::format("{} values where {} are needed", array.length, rows));
    }
    const ArrowSchema* type = &schema;
    const ArrowArray* values = &array;
    for (std::optional<ListSource>* lists : {&column->outer_, &column->inner_}) {
      if (!arrow::IsList(arrow::FormatOf(*type))) break;
      TFOS_ASSIGN_OR_RETURN(*lists, ListSource::Open(column->name_, *type, *values));
      type = type->children[0];
      values = values->children[0];
    }
    TFOS_ASSIGN_OR_RETURN(column->values_, ValueSource::Open(column->name_, *type, *values));
    return column;
  }

  const std::string& name() const { return name_; }
  /// Whether it goes among the feature lists.
  bool is_feature_list() const { return inner_.has_value(); }

  /// What the entry of the row takes; 0 if there is none, as the row is null.
  Result<std::size_t> Measure(std::uint64_t row) {
    present_ = !(outer_ ? outer_->IsNull(row) : values_->IsNull(row));
    if (!present_) return std::size_t{0};
    if (inner_) {
      inner_bytes_.clear();
      value_bytes_ = 0;
      const Range lists = outer_->ValuesOf(row);
      for (std::uint64_t i = lists.begin; i < lists.end; ++i) {
        if (inner_->IsNull(i)) return NullInside(row);
        TFOS_ASSIGN_OR_RETURN(const std::size_t list, MeasureList(row, inner_->ValuesOf(i)));
        inner_bytes_.push_back(list);
        value_bytes_ += DelimitedBytes(DelimitedBytes(list));
      }
    } else {
      TFOS_ASSIGN_OR_RETURN(list_bytes_, MeasureList(row, ValuesOf(row)));
      value_bytes_ = DelimitedBytes(list_bytes_);
    }
    entry_bytes_ = key_.size() + DelimitedBytes(value_bytes_);
    return DelimitedBytes(entry_bytes_);
  }

  /// Writes the entry of the row that was measured.
  std::byte* Write(std::uint64_t row, std::byte* to) const {
    if (!present_) return to;
    to = BeginDelimited(kEntryField, entry_bytes_, to);
    std::memcpy(to, key_.data(), key_.size());
    to = BeginDelimited(kValueField, value_bytes_, to + key_.size());
    if (!inner_) return WriteFeature(ValuesOf(row), list_bytes_, to);
    const Range lists = outer_->ValuesOf(row);
    for (std::uint64_t i = lists.begin; i < lists.end; ++i) {
      const std::size_t bytes = inner_bytes_[i - lists.begin];
      to = BeginDelimited(kFeatureField, DelimitedBytes(bytes), to);
      to = WriteFeature(inner_->ValuesOf(i), bytes, to);
    }
    return to;
  }

 private:
  Column() = default;

  Range ValuesOf(std::uint64_t row) const {
    return outer_ ? outer_->ValuesOf(row) : Range{row, row + 1};
  }

  Result<std::size_t> MeasureList(std::uint64_t row, Range values) const {
    if (values_->HasNull(values)) return NullInside(row);
    return values_->ListBytes(values);
  }

  std::byte* WriteFeature(Range values, std::size_t bytes, std::byte* to) const {
    to = BeginDelimited(static_cast<std::uint32_t>(values_->kind()), bytes, to);
    return values_->WriteList(values, bytes, to);
  }

  Status NullInside(std::uint64_t row) const {
    return Bad(
        fmt::format("row {} has a null inside a list, which tf.Example has no counterpart "
                    "of; fill or drop it first",
                    row_zero_ + static_cast<std::int64_t>(row)));
  }
  Status Bad(std::string_view what) const {
    return {ErrorKind::kBadInput, fmt::format("column '{}': {}", name_, what)};
  }

  std::string name_;
  std::string key_;            ///< The field of the name, as an entry has it.
  std::int64_t row_zero_ = 0;  ///< Below 0 where the batch begins behind that row.
  std::optional<ListSource> outer_;
  std::optional<ListSource> inner_;
  std::unique_ptr<ValueSource> values_;

  bool present_ = false;
  std::size_t list_bytes_ = 0;
  std::vector<std::size_t> inner_bytes_;
  std::size_t value_bytes_ = 0;
  std::size_t entry_bytes_ = 0;
};

ExampleEncoder::ExampleEncoder() = default;
ExampleEncoder::~ExampleEncoder() = default;

Result<std::unique_ptr<ExampleEncoder>> ExampleEncoder::Open(const ArrowSchema& schema,
                                                             const ArrowArray& batch,
                                                             RecordType type,
                                                             std::uint64_t first_row) {
  if (std::string_view(schema.format == nullptr ? "" : schema.format) != "+s" ||
      batch.n_children != schema.n_children || batch.length < 0 || batch.offset < 0 ||
      batch.null_count > 0) {
    return Status(ErrorKind::kBadInput, "this is not a record batch of Arrow");
  }
  auto encoder = std::unique_ptr<ExampleEncoder>(new ExampleEncoder);
  encoder->type_ = type;
  encoder->rows_ = static_cast<std::size_t>(batch.length);
  encoder->offset_ = static_cast<std::uint64_t>(batch.offset);
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    TFOS_ASSIGN_OR_RETURN(
        auto column,
        Column::Open(*schema.children[i], *batch.children[i], batch.offset + batch.length,
                     static_cast<std::int64_t>(first_row) - batch.offset));
    if (column->is_feature_list() && type != RecordType::kSequenceExample) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("column '{}' is a list of lists, which only a SequenceExample "
                                "has; write the records as such",
                                column->name()));
    }
    encoder->columns_.push_back(std::move(column));
  }
  std::sort(encoder->columns_.begin(), encoder->columns_.end(),
            [](const auto& one, const auto& other) { return one->name() < other->name(); });
  for (std::size_t i = 1; i < encoder->columns_.size(); ++i) {
    if (encoder->columns_[i - 1]->name() == encoder->columns_[i]->name()) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("two columns are called '{}'; a tf.Example has each key once",
                                encoder->columns_[i]->name()));
    }
  }
  return encoder;
}

Result<std::span<const std::byte>> ExampleEncoder::Encode(std::size_t row) {
  record_.Truncate(0);
  TFOS_RETURN_IF_ERROR(Append(row, record_));
  return std::span<const std::byte>(record_.data(), record_.size());
}

Status ExampleEncoder::EncodeAll(ArrowSchema& schema, ArrowArray& array) {
  ValueBuffer<std::byte> records;
  ValueBuffer<std::int32_t> ends;
  ends.Expect(rows_ + 1);
  ends.Append(0);
  for (std::size_t row = 0; row < rows_; ++row) {
    TFOS_RETURN_IF_ERROR(Append(row, records));
    if (records.size() > kMostElements) {
      return {ErrorKind::kUnsupported,
              fmt::format("the records of these rows are more than {} bytes; encode fewer at once",
                          kMostElements)};
    }
    ends.Append(static_cast<std::int32_t>(records.size()));
    // Rows are mostly of about one size; a wrong guess costs address space, or a copy.
    if (row == 0) records.Expect(std::min(records.size() * rows_ / 8 * 9, kMostElements));
  }
  const auto offsets = ends.Take();
  const auto data = records.Take();
  arrow::Field field{.name = "",
                     .format = ElementTypeFormat(ElementType::kBinary),
                     .nullable = false,
                     .length = rows_,
                     .buffers = {nullptr, offsets.get(), data.get()},
                     .memory = {offsets, data},
                     .children = {}};
  schema = arrow::ExportSchema(field);
  array = arrow::ExportArray(std::move(field));
  return Status::Ok();
}

Status ExampleEncoder::Append(std::size_t row, ValueBuffer<std::byte>& records) {
  const std::uint64_t position = offset_ + row;
  const bool lists = type_ == RecordType::kSequenceExample;
  TFOS_ASSIGN_OR_RETURN(const std::size_t features, Measure(position, false));
  std::size_t feature_lists = 0;
  if (lists) {
    TFOS_ASSIGN_OR_RETURN(feature_lists, Measure(position, true));
  }
  const std::size_t bytes = DelimitedBytes(features) + (lists ? DelimitedBytes(feature_lists) : 0);
  std::byte* const begin = records.Extend(bytes);
  std::byte* to = BeginDelimited(kFeaturesField, features, begin);
  to = WriteMap(position, false, to);
  if (lists) {
    to = BeginDelimited(kFeatureListsField, feature_lists, to);
    to = WriteMap(position, true, to);
  }
  if (to == begin + bytes) return Status::Ok();
  return {ErrorKind::kBug,
          fmt::format("a record took {} bytes instead of the {} measured", to - begin, bytes)};
}

Result<std::size_t> ExampleEncoder::Measure(std::uint64_t row, bool feature_lists) {
  std::size_t bytes = 0;
  for (const auto& column : columns_) {
    if (column->is_feature_list() != feature_lists) continue;
    TFOS_ASSIGN_OR_RETURN(const std::size_t entry, column->Measure(row));
    bytes += entry;
  }
  return bytes;
}

std::byte* ExampleEncoder::WriteMap(std::uint64_t row, bool feature_lists, std::byte* to) const {
  for (const auto& column : columns_) {
    if (column->is_feature_list() == feature_lists) to = column->Write(row, to);
  }
  return to;
}

}  // namespace tfos::records
