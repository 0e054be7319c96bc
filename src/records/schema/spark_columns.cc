#include "records/schema/spark_columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace tfos::records {
namespace {

using nlohmann::json;

/// Arrays may hold arrays, in a SequenceExample only.
constexpr int kMostDepth = 2;
constexpr int kMostJsonDepth = 64;

std::string TextIn(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json MemberOf(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() ? *found : json();
}

/// "array", "struct", "map", "udt", or the name of a type without parts, such as "integer".
std::string KindOf(const json& type) {
  return type.is_string() ? type.get<std::string>() : TextIn(type, "type");
}

bool IsVector(const json& type) {
  if (KindOf(type) != "udt") return false;
  const auto named = [&](const char* member) {
    return TextIn(type, member).ends_with(".linalg.VectorUDT");
  };
  return named("class") || named("pyClass");
}

/// As Spark's `simpleString`.
std::string SimpleText(const json& type) {
  const std::string kind = KindOf(type);
  if (kind == "integer") return "int";
  if (kind == "long") return "bigint";
  if (kind == "short") return "smallint";
  if (kind == "byte") return "tinyint";
  if (kind == "array") return "array<" + SimpleText(MemberOf(type, "elementType")) + ">";
  if (kind == "map") {
    return "map<" + SimpleText(MemberOf(type, "keyType")) + "," +
           SimpleText(MemberOf(type, "valueType")) + ">";
  }
  if (kind == "struct") {
    std::vector<std::string> fields;
    for (const json& field : MemberOf(type, "fields")) {
      fields.push_back(TextIn(field, "name") + ":" + SimpleText(MemberOf(field, "type")));
    }
    return fmt::format("struct<{}>", fmt::join(fields, ","));
  }
  return IsVector(type) ? "vector" : kind;
}

bool IsText(const std::string& kind) {
  return kind == "string" || kind.starts_with("string ") || kind.starts_with("char(") ||
         kind.starts_with("varchar(");
}

bool IsNumber(const std::string& kind) {
  static constexpr const char* kNumbers[] = {"byte",  "short",  "integer", "long",
                                             "float", "double", "decimal"};
  return std::ranges::find(kNumbers, kind) != std::end(kNumbers) || kind.starts_with("decimal(");
}

/// What to do about a column of that type; none where it is well.
std::optional<std::string> Advice(const json& type, RecordType records, ColumnUse use) {
  json element = type;
  int depth = 0;
  for (; KindOf(element) == "array"; ++depth) {
    json inner = MemberOf(element, "elementType");
    element = std::move(inner);
  }
  const std::string kind = KindOf(element);
  if (depth > kMostDepth) return "arrays may be nested twice at most, flatten it";
  if (depth == kMostDepth && records != RecordType::kSequenceExample) {
    return "arrays of arrays need recordType SequenceExample; or flatten it";
  }
  if (IsVector(element)) {
    if (use == ColumnUse::kRead) return "declare array<float>, and use array_to_vector on it";
    if (depth == 0) return std::nullopt;
    return "an array of vectors can't be, flatten it";
  }
  if (IsText(kind) || IsNumber(kind) || kind == "binary" || kind == "boolean") return std::nullopt;
  if (kind == "date" || kind == "timestamp" || kind == "timestamp_ntz") {
    return "cast it to a string, or to a number, as with unix_micros or unix_date";
  }
  if (kind == "struct") return "select its fields as columns, as in s.*";
  if (kind == "map") return "make an array of its keys and one of its values";
  return "cast it to a number, a string or binary";
}

Status Bad(std::string text) { return {ErrorKind::kBadInput, std::move(text)}; }

Status CheckByteArray(const json& schema, const json& fields) {
  const std::string kind = KindOf(MemberOf(fields.front(), "type"));
  if (fields.size() == 1 && (kind == "binary" || IsText(kind))) return Status::Ok();
  return Bad("recordType ByteArray has one column, of binary or string, and not " +
             SimpleText(schema));
}

/// Spark's own schemas are nested as deep as people write them; a text made to harm is refused
/// before anything walks down it.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  for (const char letter : text) {
    if (letter == '{' || letter == '[') ++depth;
    if (letter == '}' || letter == ']') --depth;
    if (depth > kMostJsonDepth) return true;
  }
  return false;
}

}  // namespace

Status CheckSparkColumns(std::string_view schema, RecordType type, ColumnUse use) {
  const std::string_view action = use == ColumnUse::kRead ? "read" : "written";
  if (IsTooDeep(schema)) return Bad("the schema is nested too deep");
  const json parsed = json::parse(schema, nullptr, /*allow_exceptions=*/false);
  const json fields = MemberOf(parsed, "fields");
  if (!fields.is_array()) return Bad("the schema is not one of Spark's");
  if (fields.empty()) {
    return Bad(fmt::format("a schema without columns can't be {} as TFRecords", action));
  }
  std::set<std::string> names;
  for (const json& field : fields) {
    const std::string name = TextIn(field, "name");
    if (!names.insert(name).second) {
      return Bad(fmt::format("column {} is there twice; rename one", name));
    }
  }
  if (type == RecordType::kByteArray) return CheckByteArray(parsed, fields);
  std::vector<std::string> refused;
  for (const json& field : fields) {
    const json kind = MemberOf(field, "type");
    if (const auto advice = Advice(kind, type, use)) {
      refused.push_back(
          fmt::format("column {} is {}: {}", TextIn(field, "name"), SimpleText(kind), *advice));
    }
  }
  if (refused.empty()) return Status::Ok();
  return Bad(fmt::format("this can't be {} as TFRecords: {}", action, fmt::join(refused, "; ")));
}

}  // namespace tfos::records
