#include "inference/column_type.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "arrow/array_view.h"
#include "base/format.h"
#include "columns/arrow/number_type.h"
#include "inference/number_conversion.h"
#include "tensorflow/chunk_type.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.

/// A vector of Spark ML, which is a struct.
bool IsVector(const ArrowSchema& schema) {
  constexpr std::string_view kChildren[] = {"type", "size", "indices", "values"};
  if (arrow::FormatOf(schema) != "+s" || schema.n_children != std::ssize(kChildren) ||
      schema.children == nullptr) {
    return false;
  }
  return std::equal(std::begin(kChildren), std::end(kChildren), schema.children,
                    [](std::string_view name, const ArrowSchema* child) {
                      return child != nullptr && child->name != nullptr && child->name == name;
                    });
}

/// Whether rows of one value can have the shape behind the first dimension.
bool IsOne(std::span<const std::int64_t> shape) {
  return std::ranges::all_of(
      shape, [](std::int64_t size) { return size == 1 || size == TensorSpec::kUnknown; });
}

/// Why the lists of a column, or its single values, can't have the shape behind the first
/// dimension. `element` is what messages call a value.
std::optional<std::string> ShapeMismatch(const ColumnType& column,
                                         std::span<const std::int64_t> shape,
                                         std::string_view element) {
  if (column.depth == 0) {
    if (IsOne(shape)) return std::nullopt;
    return fmt::format("a row has one {}, and the tensor more", element);
  }
  if (shape.empty()) return fmt::format("a row has a list, and the tensor one {}", element);
  if (shape.size() != column.depth && std::ranges::count(shape, TensorSpec::kUnknown) > 1) {
    return fmt::format(
        "how the {}s of a row are laid out can't be told: more than one size is "
        "unknown",
        element);
  }
  return std::nullopt;
}

/// Why elements of the column can't be those of the tensor.
std::optional<std::string> ElementMismatch(const ColumnType& column, const TensorSpec& tensor) {
  switch (column.kind) {
    case ColumnType::Kind::kOther:
      return "columns of this type can't be given to a model; convert it first";
    case ColumnType::Kind::kText:
    case ColumnType::Kind::kBinary:
      if (tensor.dtype == kTfString) return std::nullopt;
      return "it has no strings; decode or cast the column first";
    case ColumnType::Kind::kNumbers:
      break;
  }
  if (CanConvert(column.dtype, tensor.dtype)) return std::nullopt;
  return fmt::format("{} does not become {}; cast the column first", DataTypeName(column.dtype),
                     DataTypeName(tensor.dtype));
}

}  // namespace

ColumnType ColumnType::Of(const ArrowSchema& schema) {
  ColumnType type;
  const ArrowSchema* leaf = &schema;
  while (arrow::IsList(arrow::FormatOf(*leaf)) && leaf->n_children == 1 &&
         leaf->children != nullptr && leaf->children[0] != nullptr) {
    type.text += type.depth == 0 ? "list of " : "lists of ";
    ++type.depth;
    leaf = leaf->children[0];
  }
  const std::string_view format = arrow::FormatOf(*leaf);
  if (const auto number = columns::ParseNumberType(format); number && leaf->dictionary == nullptr) {
    type.kind = Kind::kNumbers;
    type.dtype = TypeOfChunk(static_cast<std::int32_t>(number->dtype));
    type.text += DataTypeName(type.dtype);
  } else if (IsVector(*leaf)) {
    type.text += "vector";
    if (type.depth == 0) type.kind = Kind::kNumbers;
    type.dtype = kTfDouble;
    ++type.depth;
  } else if (format == "u" || format == "U") {
    type.text += "string";
    type.kind = Kind::kText;
  } else if (format == "z" || format == "Z" || format.starts_with("w:")) {
    type.text += "binary";
    type.kind = Kind::kBinary;
  } else {
    type.text += fmt::format("the Arrow type '{}'", format);
  }
  return type;
}

std::optional<std::string> Mismatch(const ColumnType& column, const TensorSpec& tensor) {
  if (tensor.edge.empty()) return "sparse and ragged tensors of one name can't be given";
  if (tensor.shape && tensor.shape->empty()) {
    return "it has no dimension for the rows: one value would stand for all of a batch";
  }
  // The bytes of a binary value are uint8 numbers.
  if (column.kind == ColumnType::Kind::kBinary && column.depth == 0 && tensor.dtype == kTfUint8) {
    return std::nullopt;
  }
  if (const auto mismatch = ElementMismatch(column, tensor)) return mismatch;
  if (!tensor.shape) return std::nullopt;
  const bool numbers = column.kind == ColumnType::Kind::kNumbers;
  return ShapeMismatch(column, std::span(*tensor.shape).subspan(1), numbers ? "number" : "string");
}

std::optional<std::string> RaggedMismatch(const ColumnType& column, const TensorSpec& values,
                                          const TensorSpec& splits) {
  if (column.kind == ColumnType::Kind::kOther || column.depth != 1) {
    return "a ragged tensor is made of a list of numbers or strings";
  }
  if (const auto mismatch = ElementMismatch(column, values)) return mismatch;
  if (values.shape && values.shape->size() != 1) return "its values have more than one dimension";
  if ((splits.dtype != kTfInt64 && splits.dtype != kTfInt32) ||
      (splits.shape && splits.shape->size() != 1)) {
    return fmt::format("{} is {}, which are not row splits", splits.name, TypeText(splits));
  }
  return std::nullopt;
}

}  // namespace tfos::inference
