#ifndef TFOS_RECORDS_EXAMPLE_TEST_EXAMPLES_H_
#define TFOS_RECORDS_EXAMPLE_TEST_EXAMPLES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrow/c_data.h"
#include "base/format.h"
#include "records/framing/test_records.h"
#include "records/schema/example_schema.h"

// Records and columns for the tests of this folder. Header only: it is in no library.

namespace tfos::records {

// -- messages, put together by hand

inline std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string Delimited(std::uint32_t field, std::string_view bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

inline std::string BytesFeature(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Delimited(1, value);
  return Delimited(1, list);
}

inline std::string FloatFeature(const std::vector<float>& values) {
  const std::string packed(reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(float));
  return Delimited(2, values.empty() ? "" : Delimited(1, packed));
}

inline std::string Int64Feature(const std::vector<std::int64_t>& values) {
  std::string packed;
  for (const std::int64_t value : values) packed += Varint(static_cast<std::uint64_t>(value));
  return Delimited(3, values.empty() ? "" : Delimited(1, packed));
}

using Entries = std::vector<std::pair<std::string, std::string>>;

/// A map whose entries are in this order.
inline std::string MapOf(const Entries& entries) {
  std::string map;
  for (const auto& [key, value] : entries) {
    map += Delimited(1, Delimited(1, key) + Delimited(2, value));
  }
  return map;
}

inline std::string ExampleOf(const Entries& features) { return Delimited(1, MapOf(features)); }

// -- what TensorFlow wrote, with SerializeToString(deterministic=True)

/// b: [ab, ''], empty: int64 [], f: [1.5, -2], i: [1, -2, 300], none: a Feature without a list.
inline std::string GoldenExample() {
  return FromHex(
      "0a510a0d0a016212080a060a0261620a000a0b0a05656d70747912021a000a110a0166120c120a0a080000c03f00"
      "0000c00a160a016912111a0f0a0d01feffffffffffffffff01ac020a080a046e6f6e651200");
}

/// Context id: [7]; feature lists none: [], steps: [[1, 2], [3]] of floats, words: [[x]].
inline std::string GoldenSequenceExample() {
  return FromHex(
      "0a0d0a0b0a02696412051a030a0107123f0a080a046e6f6e6512000a210a05737465707312180a0c120a0a080000"
      "803f000000400a0812060a04000040400a100a05776f72647312070a050a030a0178");
}

// -- columns

/// "name:type", the type as in "int32", "[float]", "[float;3]", "[[string]]"; with "!" behind it
/// the column is not nullable.
inline ExampleColumn ColumnOf(std::string_view text) {
  ExampleColumn column;
  const std::size_t colon = text.rfind(':');
  column.name = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  if (text.ends_with('!')) {
    column.nullable = false;
    text.remove_suffix(1);
  }
  const auto strip = [&] { text = text.substr(1, text.size() - 2); };
  if (text.starts_with("[[")) {
    column.shape = ColumnShape::kListOfLists;
    strip();
    strip();
  } else if (text.starts_with('[')) {
    column.shape = ColumnShape::kList;
    strip();
    if (const std::size_t semicolon = text.find(';'); semicolon != std::string_view::npos) {
      column.shape = ColumnShape::kFixedList;
      column.length = std::stoul(std::string(text.substr(semicolon + 1)));
      text = text.substr(0, semicolon);
    }
  }
  for (int type = 0; type <= static_cast<int>(ElementType::kBinary); ++type) {
    if (ElementTypeName(static_cast<ElementType>(type)) == text) {
      column.type = static_cast<ElementType>(type);
    }
  }
  return column;
}

inline ExampleSchema SchemaOf(const std::vector<std::string>& columns) {
  ExampleSchema schema;
  for (const std::string& column : columns) schema.columns.push_back(ColumnOf(column));
  return schema;
}

/// An exported struct array, which is released at the end.
struct Exported {
  ArrowSchema schema{};
  ArrowArray array{};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    if (schema.release != nullptr) schema.release(&schema);
    if (array.release != nullptr) array.release(&array);
  }
};

/// The value at `index` as text: 7, -1.5, 'text', null, [1, 2].
inline std::string Show(const ArrowSchema& schema, const ArrowArray& array, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index + array.offset);
  const auto number = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, static_cast<const T*>(array.buffers[1]) + at, sizeof value);
    return fmt::format("{}", value);
  };
  const auto bit = [&](const void* bits) {
    return (static_cast<const std::uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
  };
  if (array.buffers[0] != nullptr && !bit(array.buffers[0])) return "null";
  const std::string_view format = schema.format;
  // A fixed-size list has none.
  const auto* const offsets =
      array.n_buffers > 1 ? static_cast<const std::int32_t*>(array.buffers[1]) : nullptr;
  const auto list = [&](std::int64_t begin, std::int64_t end) {
    std::string text;
    for (std::int64_t i = begin; i < end; ++i) {
      text += (i == begin ? "" : ", ") + Show(*schema.children[0], *array.children[0], i);
    }
    return "[" + text + "]";
  };
  if (format == "b") return bit(array.buffers[1]) ? "true" : "false";
  if (format == "c") return number(std::int8_t{});
  if (format == "s") return number(std::int16_t{});
  if (format == "i") return number(std::int32_t{});
  if (format == "l") return number(std::int64_t{});
  if (format == "f") return number(float{});
  if (format == "g") return number(double{});
  if (format == "u" || format == "z") {
    const auto* const data = static_cast<const char*>(array.buffers[2]);
    return "'" +
           std::string(data + offsets[at],
                       static_cast<std::size_t>(offsets[at + 1] - offsets[at])) +
           "'";
  }
  if (format == "+l") return list(offsets[at], offsets[at + 1]);
  if (format.starts_with("+w:")) {
    const std::int64_t length = std::stoll(std::string(format.substr(3)));
    return list(static_cast<std::int64_t>(at) * length,
                (static_cast<std::int64_t>(at) + 1) * length);
  }
  return "?";
}

/// Each row as its values, with a blank between.
inline std::vector<std::string> ShowRows(const Exported& table) {
  std::vector<std::string> rows;
  for (std::int64_t row = 0; row < table.array.length; ++row) {
    std::string text;
    for (std::int64_t i = 0; i < table.schema.n_children; ++i) {
      text += (i == 0 ? "" : " ") + Show(*table.schema.children[i], *table.array.children[i], row);
    }
    rows.push_back(text);
  }
  return rows;
}

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_TEST_EXAMPLES_H_
