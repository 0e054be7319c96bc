#ifndef TFOS_RECORDS_SCHEMA_EXAMPLE_SCHEMA_H_
#define TFOS_RECORDS_SCHEMA_EXAMPLE_SCHEMA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/c_data.h"
#include "arrow/export.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// The type of one value of a column.
enum class ElementType : std::uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat32,
  kFloat64,
  kString,
  kBinary,
};

/// "int32"; what pyarrow prints.
std::string_view ElementTypeName(ElementType type);
/// Arrow's text for it.
const char* ElementTypeFormat(ElementType type);
/// The list that holds such values in a record.
FeatureKind KindOf(ElementType type);

/// What a column has in each row.
enum class ColumnShape : std::uint8_t {
  kSingle,
  kFixedList,    ///< A list of `ExampleColumn::length` values.
  kList,         ///< Of any length.
  kListOfLists,  ///< A FeatureList of a SequenceExample.
};

/// How the elements of a list are called in Arrow, which reads no meaning into it.
struct ElementField {
  std::string name = "item";
  bool nullable = true;  ///< Says Arrow; none is ever null.
};

struct ExampleColumn {
  std::string name;
  ElementType type = ElementType::kInt64;
  ColumnShape shape = ColumnShape::kSingle;
  std::uint64_t length = 0;  ///< kFixedList only.
  bool nullable = true;
  ElementField outer = {};  ///< The elements of the column's lists.
  ElementField inner = {};  ///< kListOfLists: the elements of those.
};

/// The columns of a table of examples, whose names differ.
///
/// Owner and lifetime: a value. Threads: readable from several.
struct ExampleSchema {
  std::vector<ExampleColumn> columns;

  /// From a struct of Arrow, such as the schema of a record batch. kBadInput for types that
  /// docs/formats/tfrecord.md does not list, naming column and type.
  static Result<ExampleSchema> FromArrow(const ArrowSchema& schema);
};

/// `column` as Arrow sees it, without values.
arrow::Field FieldOf(const ExampleColumn& column);
/// The struct of all columns, without values.
arrow::Field FieldOf(const ExampleSchema& schema);

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_EXAMPLE_SCHEMA_H_
