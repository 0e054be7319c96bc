#include "records/schema/example_schema.h"

#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"

namespace tfos::records {
namespace {

struct TypeRow {
  ElementType type;
  const char* name;
  const char* format;
  FeatureKind kind;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kBool, "bool", "b", FeatureKind::kInt64},
    {ElementType::kInt8, "int8", "c", FeatureKind::kInt64},
    {ElementType::kInt16, "int16", "s", FeatureKind::kInt64},
    {ElementType::kInt32, "int32", "i", FeatureKind::kInt64},
    {ElementType::kInt64, "int64", "l", FeatureKind::kInt64},
    {ElementType::kFloat32, "float", "f", FeatureKind::kFloat},
    {ElementType::kFloat64, "double", "g", FeatureKind::kFloat},
    {ElementType::kString, "string", "u", FeatureKind::kBytes},
    {ElementType::kBinary, "binary", "z", FeatureKind::kBytes},
};

const TypeRow& RowOf(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::string_view TextOf(const char* text) { return text == nullptr ? "" : text; }

constexpr std::string_view kFixedListPrefix = "+w:";

/// The length of a fixed-size list; none for another type.
std::optional<std::uint64_t> FixedLength(std::string_view format) {
  if (!format.starts_with(kFixedListPrefix)) return std::nullopt;
  format.remove_prefix(kFixedListPrefix.size());
  std::uint64_t length = 0;
  const auto parsed = std::from_chars(format.data(), format.data() + format.size(), length);
  // Arrow's limit.
  if (parsed.ec != std::errc() || parsed.ptr != format.data() + format.size() ||
      length > INT32_MAX) {
    return std::nullopt;
  }
  return length;
}

bool IsNullable(const ArrowSchema& schema) { return (schema.flags & ARROW_FLAG_NULLABLE) != 0; }

Status Unknown(std::string_view column, std::string_view format) {
  return {ErrorKind::kBadInput,
          fmt::format("column '{}' has a part of the Arrow type '{}', which tf.Example has no "
                      "counterpart of; cast it to one of docs/formats/tfrecord.md",
                      column, format)};
}

/// The only child of a list; null if it is not built like that.
const ArrowSchema* ChildOf(const ArrowSchema& list) {
  return list.n_children == 1 && list.children != nullptr ? list.children[0] : nullptr;
}

ElementField ElementOf(const ArrowSchema& schema) {
  return {.name = std::string(TextOf(schema.name)), .nullable = IsNullable(schema)};
}

Result<ExampleColumn> ColumnFrom(const ArrowSchema& schema) {
  ExampleColumn column{.name = std::string(TextOf(schema.name)), .nullable = IsNullable(schema)};
  const ArrowSchema* element = &schema;
  const std::string_view format = TextOf(schema.format);
  if (const auto length = FixedLength(format)) {
    column.shape = ColumnShape::kFixedList;
    column.length = *length;
  } else if (format == "+l") {
    column.shape = ColumnShape::kList;
  }
  if (column.shape != ColumnShape::kSingle) {
    element = ChildOf(schema);
    if (element == nullptr) return Unknown(column.name, format);
    column.outer = ElementOf(*element);
    if (column.shape == ColumnShape::kList && TextOf(element->format) == "+l") {
      column.shape = ColumnShape::kListOfLists;
      element = ChildOf(*element);
      if (element == nullptr) return Unknown(column.name, format);
      column.inner = ElementOf(*element);
    }
  }
  for (const TypeRow& row : kTypes) {
    if (TextOf(element->format) == row.format && element->dictionary == nullptr) {
      column.type = row.type;
      return column;
    }
  }
  return Unknown(column.name, TextOf(element->format));
}

}  // namespace

std::string_view ElementTypeName(ElementType type) { return RowOf(type).name; }
const char* ElementTypeFormat(ElementType type) { return RowOf(type).format; }
FeatureKind KindOf(ElementType type) { return RowOf(type).kind; }

Result<ExampleSchema> ExampleSchema::FromArrow(const ArrowSchema& schema) {
  if (TextOf(schema.format) != "+s") {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a schema has columns, and this is of the single Arrow type '{}'",
                              TextOf(schema.format)));
  }
  ExampleSchema result;
  std::set<std::string> names;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    TFOS_ASSIGN_OR_RETURN(ExampleColumn column, ColumnFrom(*schema.children[i]));
    if (!names.insert(column.name).second) {
      return Status(
          ErrorKind::kBadInput,
          fmt::format("two columns are called '{}'; a tf.Example has each key once", column.name));
    }
    result.columns.push_back(std::move(column));
  }
  return result;
}

arrow::Field FieldOf(const ExampleColumn& column) {
  const auto element = [&](const ElementField& field) {
    return arrow::Field{.name = field.name,
                        .format = ElementTypeFormat(column.type),
                        .nullable = field.nullable,
                        .buffers = {},
                        .memory = {},
                        .children = {}};
  };
  arrow::Field field{.name = column.name,
                     .format = ElementTypeFormat(column.type),
                     .nullable = column.nullable,
                     .buffers = {},
                     .memory = {},
                     .children = {}};
  switch (column.shape) {
    case ColumnShape::kSingle:
      break;
    case ColumnShape::kFixedList:
      field.format = fmt::format("{}{}", kFixedListPrefix, column.length);
      field.children.push_back(element(column.outer));
      break;
    case ColumnShape::kList:
      field.format = "+l";
      field.children.push_back(element(column.outer));
      break;
    case ColumnShape::kListOfLists:
      field.format = "+l";
      field.children.push_back(element(column.outer));
      field.children[0].format = "+l";
      field.children[0].children.push_back(element(column.inner));
      break;
  }
  return field;
}

arrow::Field FieldOf(const ExampleSchema& schema) {
  arrow::Field all{
      .name = "", .format = "+s", .nullable = false, .buffers = {}, .memory = {}, .children = {}};
  for (const ExampleColumn& column : schema.columns) all.children.push_back(FieldOf(column));
  return all;
}

}  // namespace tfos::records
