#include "records/example/example_decoder.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::records {

Result<std::unique_ptr<ExampleDecoder>> ExampleDecoder::Create(ExampleSchema schema,
                                                               RecordType type) {
  if (type == RecordType::kByteArray) {
    const bool fits =
        schema.columns.empty() ||
        (schema.columns.size() == 1 && schema.columns[0].shape == ColumnShape::kSingle &&
         KindOf(schema.columns[0].type) == FeatureKind::kBytes);
    if (!fits) {
      return Status(ErrorKind::kBadInput,
                    "records as they are go into one column of binary or string, and there is "
                    "another one");
    }
  }
  for (const ExampleColumn& column : schema.columns) {
    if (column.shape == ColumnShape::kListOfLists && type != RecordType::kSequenceExample) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("column '{}' is a list of lists, which only a SequenceExample has; "
                                "read the records as such",
                                column.name));
    }
  }
  return std::unique_ptr<ExampleDecoder>(new ExampleDecoder(std::move(schema), type));
}

ExampleDecoder::ExampleDecoder(ExampleSchema schema, RecordType type)
    : schema_(std::move(schema)), type_(type), values_(schema_.columns.size()) {
  columns_.reserve(schema_.columns.size());
  for (const ExampleColumn& column : schema_.columns) {
    KeyFinder& finder = column.shape == ColumnShape::kListOfLists ? feature_lists_ : features_;
    finder.Add(column.name, static_cast<int>(columns_.size()));
    columns_.emplace_back(column, pool_);
  }
}

Status ExampleDecoder::Add(std::span<const std::byte> record) {
  if (type_ != RecordType::kByteArray) TFOS_RETURN_IF_ERROR(Parse(record));
  if (Status appended = Append(record); !appended.ok()) {
    for (FeatureColumn& column : columns_) column.Truncate(rows_);
    return appended;
  }
  ++rows_;
  bytes_ += record.size();
  return Status::Ok();
}

Status ExampleDecoder::Parse(std::span<const std::byte> record) {
  std::fill(values_.begin(), values_.end(), std::span<const std::byte>());
  features_.BeginRecord();
  feature_lists_.BeginRecord();
  const bool parsed = ForEachFeature(
      record, type_,
      [&](std::uint32_t map, std::string_view key, std::span<const std::byte> value) {
        const int column = map == kFeaturesField ? features_.Find(key) : feature_lists_.Find(key);
        if (column != KeyFinder::kNone) values_[static_cast<std::size_t>(column)] = value;
        return true;
      });
  if (parsed) return Status::Ok();
  return {ErrorKind::kBadInput,
          fmt::format("the record is not a valid tf.{}",
                      type_ == RecordType::kExample ? "Example" : "SequenceExample")};
}

Status ExampleDecoder::Append(std::span<const std::byte> record) {
  if (type_ == RecordType::kByteArray) {
    return columns_.empty() ? Status::Ok() : columns_.front().AppendBytes(record);
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    TFOS_RETURN_IF_ERROR(values_[i].data() == nullptr ? columns_[i].AppendMissing()
                                                      : columns_[i].Append(values_[i]));
  }
  return Status::Ok();
}

Status ExampleDecoder::AddNulls() {
  for (const ExampleColumn& column : schema_.columns) {
    if (column.nullable) continue;
    return {ErrorKind::kBadInput,
            fmt::format("column '{}' is not nullable, so there can be no row for a record that "
                        "could not be read",
                        column.name)};
  }
  for (FeatureColumn& column : columns_) column.AppendNull();
  ++rows_;
  return Status::Ok();
}

arrow::Field ExampleDecoder::Take() {
  arrow::Field all = FieldOf(ExampleSchema{});
  all.length = rows_;
  all.buffers = {nullptr};
  for (FeatureColumn& column : columns_) all.children.push_back(column.Take());
  rows_ = 0;
  bytes_ = 0;
  return all;
}

void ExampleDecoder::Take(ArrowSchema& schema, ArrowArray& array) {
  arrow::Field all = Take();
  schema = arrow::ExportSchema(all);
  array = arrow::ExportArray(std::move(all));
}

}  // namespace tfos::records
