#include "records/example/feature_column.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::records {
namespace {

constexpr std::size_t kBitsOfByte = 8;

bool HasInnerLists(const ExampleColumn& column) {
  return column.shape == ColumnShape::kListOfLists;
}
bool HasOffsets(const ExampleColumn& column) {
  return column.shape == ColumnShape::kList || HasInnerLists(column);
}

/// Moves the offsets of `lists` lists into `field`, and begins anew.
void TakeOffsets(ValueBuffer<std::int32_t>& offsets, std::size_t lists, arrow::Field& field) {
  std::shared_ptr<const std::int32_t> memory = offsets.Take();
  field.length = lists;
  field.buffers.push_back(memory.get());
  field.memory.push_back(std::move(memory));
  offsets.Append(0);
}

void TakeElements(Elements& elements, arrow::Field& field) {
  field.length = elements.size();
  elements.Take(field);
}

}  // namespace

void Validity::AppendBit(bool valid) {
  if (nulls_ == 0) {
    // The first null: all before it were none.
    const std::size_t bytes = (size_ + kBitsOfByte - 1) / kBitsOfByte;
    std::fill_n(bits_.Extend(bytes), bytes, std::uint8_t{0xFF});
  }
  if (size_ % kBitsOfByte == 0) bits_.Append(0xFF);
  if (!valid) {
    std::uint8_t& last = bits_.data()[size_ / kBitsOfByte];
    last = static_cast<std::uint8_t>(last & ~(1U << (size_ % kBitsOfByte)));
    ++nulls_;
  }
}

void Validity::Truncate(std::size_t size) {
  if (nulls_ != 0) {
    for (std::size_t i = size; i < size_; ++i) {
      std::uint8_t& byte = bits_.data()[i / kBitsOfByte];
      const unsigned bit = 1U << (i % kBitsOfByte);
      if ((byte & bit) == 0) --nulls_;
      byte = static_cast<std::uint8_t>(byte | bit);
    }
    bits_.Truncate(nulls_ == 0 ? 0 : (size + kBitsOfByte - 1) / kBitsOfByte);
  }
  size_ = std::min(size, size_);
}

void Validity::Take(arrow::Field& field) {
  field.nulls = nulls_;
  field.buffers.push_back(nullptr);
  if (nulls_ != 0) {
    std::shared_ptr<const std::uint8_t> memory = bits_.Take();
    field.buffers.back() = memory.get();
    field.memory.push_back(std::move(memory));
  }
  size_ = nulls_ = 0;
}

FeatureColumn::FeatureColumn(const ExampleColumn& column, BufferPool& pool)
    : column_(column), elements_(Elements::Create(column.type, pool)), outer_(pool), inner_(pool) {
  if (HasOffsets(column_)) outer_.Append(0);
  if (HasInnerLists(column_)) inner_.Append(0);
}

Status FeatureColumn::Append(std::span<const std::byte> value) {
  if (HasInnerLists(column_)) return AppendFeatureList(value);
  Feature feature;
  if (!feature.Parse(value)) return Bad(Problem::kMalformed);
  if (feature.kind() == FeatureKind::kMissing) return AppendMissing();
  const std::size_t before = elements_->size();
  TFOS_RETURN_IF_ERROR(AppendValues(feature));
  const std::size_t count = elements_->size() - before;
  switch (column_.shape) {
    case ColumnShape::kSingle:
      if (count == 0) return AppendMissing();
      if (count != 1) return Bad(fmt::format("the record has {} values where one goes", count));
      break;
    case ColumnShape::kFixedList:
      if (count != column_.length) {
        return Bad(fmt::format("the record has {} values where {} go", count, column_.length));
      }
      break;
    case ColumnShape::kList:
    case ColumnShape::kListOfLists:
      TFOS_RETURN_IF_ERROR(EndList(outer_, elements_->size()));
      break;
  }
  validity_.Append(true);
  return Status::Ok();
}

Status FeatureColumn::AppendBytes(std::span<const std::byte> value) {
  if (const Problem problem = elements_->AppendBytes(value); problem != Problem::kNone) {
    return Bad(problem);
  }
  validity_.Append(true);
  return Status::Ok();
}

Status FeatureColumn::AppendFeatureList(std::span<const std::byte> list) {
  Status failed;
  const bool read = ForEachBytes(list, [&](std::uint32_t field, std::span<const std::byte> bytes) {
    if (field != kFeatureField) return true;
    Feature feature;
    if (!feature.Parse(bytes)) return false;
    if (feature.kind() != FeatureKind::kMissing) failed = AppendValues(feature);
    if (failed.ok()) failed = EndList(inner_, elements_->size());
    return failed.ok();
  });
  TFOS_RETURN_IF_ERROR(failed);
  if (!read) return Bad(Problem::kMalformed);
  TFOS_RETURN_IF_ERROR(EndList(outer_, inner_.size() - 1));
  validity_.Append(true);
  return Status::Ok();
}

Status FeatureColumn::AppendValues(const Feature& feature) {
  if (feature.kind() != KindOf(column_.type)) {
    return Bad(fmt::format("the record has {}, and {} wants {}", FeatureKindName(feature.kind()),
                           ElementTypeName(column_.type), FeatureKindName(KindOf(column_.type))));
  }
  Problem problem = Problem::kNone;
  const bool read = feature.ForEachPiece([&](std::span<const std::byte> list) {
    problem = elements_->Append(list);
    return problem == Problem::kNone;
  });
  if (read) return Status::Ok();
  return Bad(problem == Problem::kNone ? Problem::kMalformed : problem);
}

Status FeatureColumn::EndList(ValueBuffer<std::int32_t>& offsets, std::size_t end) {
  if (end > kMostElements) return Bad(Problem::kTooMany);
  offsets.Append(static_cast<std::int32_t>(end));
  return Status::Ok();
}

Status FeatureColumn::AppendMissing() {
  if (!column_.nullable) {
    return Bad("the record has no value for it, and the column is not nullable");
  }
  AppendNull();
  return Status::Ok();
}

void FeatureColumn::AppendNull() {
  switch (column_.shape) {
    case ColumnShape::kSingle:
      elements_->AppendZeros(1);
      break;
    case ColumnShape::kFixedList:
      elements_->AppendZeros(column_.length);
      break;
    case ColumnShape::kList:
    case ColumnShape::kListOfLists: {
      const std::int32_t end = outer_.data()[outer_.size() - 1];
      outer_.Append(end);
      break;
    }
  }
  validity_.Append(false);
}

void FeatureColumn::Truncate(std::size_t rows) {
  validity_.Truncate(rows);
  std::size_t elements = rows;
  if (column_.shape == ColumnShape::kFixedList) elements = rows * column_.length;
  if (HasOffsets(column_)) {
    outer_.Truncate(rows + 1);
    elements = static_cast<std::size_t>(outer_.data()[rows]);
  }
  if (HasInnerLists(column_)) {
    inner_.Truncate(elements + 1);
    elements = static_cast<std::size_t>(inner_.data()[elements]);
  }
  elements_->Truncate(elements);
}

arrow::Field FeatureColumn::Take() {
  arrow::Field field = FieldOf(column_);
  const std::size_t rows = validity_.size();
  validity_.Take(field);
  arrow::Field* values = &field;
  if (HasOffsets(column_)) {
    const std::size_t inner_lists = static_cast<std::size_t>(outer_.data()[rows]);
    TakeOffsets(outer_, rows, field);
    values = &field.children[0];
    values->buffers.push_back(nullptr);
    if (HasInnerLists(column_)) {
      TakeOffsets(inner_, inner_lists, *values);
      values = &values->children[0];
      values->buffers.push_back(nullptr);
    }
  } else if (column_.shape == ColumnShape::kFixedList) {
    values = &field.children[0];
    values->buffers.push_back(nullptr);
  }
  TakeElements(*elements_, *values);
  field.length = rows;
  return field;
}

Status FeatureColumn::Bad(std::string_view what) const {
  return {ErrorKind::kBadInput, fmt::format("column '{}': {}", column_.name, what)};
}

Status FeatureColumn::Bad(Problem problem) const {
  switch (problem) {
    case Problem::kNone:
    case Problem::kMalformed:
      break;
    case Problem::kOutOfRange:
      return Bad(fmt::format("the record has an integer that {} does not hold",
                             ElementTypeName(column_.type)));
    case Problem::kNotUtf8:
      return Bad("the record has bytes that are not UTF-8; make it a column of binary");
    case Problem::kTooMany:
      return Status(ErrorKind::kUnsupported,
                    fmt::format("column '{}' has more than {} elements or bytes in one batch; read "
                                "fewer records at once",
                                column_.name, kMostElements));
  }
  return Bad("the record is not a valid tf.Example there");
}

}  // namespace tfos::records
