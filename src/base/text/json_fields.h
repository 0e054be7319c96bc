#ifndef TFOS_BASE_TEXT_JSON_FIELDS_H_
#define TFOS_BASE_TEXT_JSON_FIELDS_H_

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tfos/status.h"

// JSON objects as structs, each field named once for reading and writing alike:
//
//   template <typename Fields, DescribedAs<Point> M>
//   void Describe(Fields& fields, M& point) {
//     fields.Required("x", point.x, JsonRange{0, 100});
//     fields.Optional("label", point.label);
//   }
//
// `Describe` lies in the namespace of its struct. Types that are not objects specialise JsonValue.
//
// Owner and lifetime: values; a JsonReader borrows its object. Threads: one at a time.
// Errors: nothing throws; the first field that is wrong is named, and what it must be, not its
// value.
namespace tfos {

using Json = nlohmann::json;

/// What a whole number may be; of a text, how many bytes it may have.
struct JsonRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<int>::max();
  /// Of a list, each of whose elements is in the range.
  std::size_t most_elements = std::numeric_limits<std::size_t>::max();
};
inline constexpr JsonRange kAnyInteger = {std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::max()};

/// `M` is `T` or `const T`.
template <typename M, typename T>
concept DescribedAs = std::same_as<std::remove_const_t<M>, T>;

/// The bytes of a text whose characters have the bytes' numbers, U+0001 to U+00FF: how JSON carries
/// what the operating system holds as bytes. nullopt for other characters. `text` is valid UTF-8.
std::optional<std::string> BytesOfText(std::string_view text);
std::string TextOfBytes(std::string_view bytes);

/// The object that `text` is. Bad input, saying what is wrong, for a text over `max_bytes`, one
/// that is nested more than 64 deep, and anything but an object. `what` names it: "the message".
Result<Json> ParseJsonObject(std::string_view text, std::size_t max_bytes, std::string_view what);

/// One line; bytes that are not UTF-8 are replaced.
std::string WriteJsonLine(const Json& json);

/// How one type is read and written. `Read` returns what is wrong with the value ("must be ..."),
/// nothing when it was taken. As it stands: for structs that have a `Describe`.
template <typename T>
struct JsonValue;

/// Reads the fields of one object.
class JsonReader {
 public:
  explicit JsonReader(const Json& object) : object_(object) {}

  template <typename T>
  void Required(const char* name, T& value, JsonRange range = {}) {
    const auto field = object_.find(name);
    if (field == object_.end()) {
      Refuse(name, "is missing");
    } else {
      Refuse(name, JsonValue<T>::Read(*field, value, range));
    }
  }

  /// One that is missing or null leaves `value` as it is.
  template <typename T>
  void Optional(const char* name, T& value, JsonRange range = {}) {
    const auto field = object_.find(name);
    if (field == object_.end() || field->is_null()) return;
    Refuse(name, JsonValue<T>::Read(*field, value, range));
  }

  void RequiredBytes(const char* name, std::string& value);
  void RequiredBytes(const char* name, std::vector<std::string>& values);

  /// The first field that was wrong, and how; empty when none was.
  const std::string& error() const { return error_; }

 private:
  void Refuse(const char* name, const std::string& problem);

  const Json& object_;
  std::string error_;
};

/// Writes the fields of one object.
class JsonWriter {
 public:
  template <typename T>
  void Required(const char* name, const T& value, JsonRange = {}) {
    object_[name] = JsonValue<T>::Write(value);
  }
  template <typename T>
  void Optional(const char* name, const T& value, JsonRange = {}) {
    object_[name] = JsonValue<T>::Write(value);
  }
  void RequiredBytes(const char* name, const std::string& value) {
    object_[name] = TextOfBytes(value);
  }
  void RequiredBytes(const char* name, const std::vector<std::string>& values) {
    Json list = Json::array();
    for (const std::string& value : values) list.push_back(TextOfBytes(value));
    object_[name] = std::move(list);
  }

  Json Take() { return std::move(object_); }

 private:
  Json object_ = Json::object();
};

template <typename T>
struct JsonValue {
  static std::string Read(const Json& json, T& value, JsonRange) {
    if (!json.is_object()) return "must be an object";
    JsonReader reader(json);
    Describe(reader, value);
    return reader.error().empty() ? "" : "is wrong: " + reader.error();
  }
  static Json Write(const T& value) {
    JsonWriter writer;
    Describe(writer, value);
    return writer.Take();
  }
};

template <>
struct JsonValue<bool> {
  static std::string Read(const Json& json, bool& value, JsonRange);
  static Json Write(bool value) { return value; }
};

template <>
struct JsonValue<std::int64_t> {
  static std::string Read(const Json& json, std::int64_t& value, JsonRange range);
  static Json Write(std::int64_t value) { return value; }
};

template <>
struct JsonValue<int> {
  static std::string Read(const Json& json, int& value, JsonRange range) {
    std::int64_t wide = 0;
    std::string problem = JsonValue<std::int64_t>::Read(json, wide, range);
    if (problem.empty()) value = static_cast<int>(wide);
    return problem;
  }
  static Json Write(int value) { return value; }
};

template <>
struct JsonValue<double> {
  static std::string Read(const Json& json, double& value, JsonRange);
  static Json Write(double value) { return value; }
};

template <>
struct JsonValue<std::string> {
  static std::string Read(const Json& json, std::string& value, JsonRange range);
  static Json Write(const std::string& value) { return value; }
};

template <>
struct JsonValue<std::chrono::milliseconds> {
  static std::string Read(const Json& json, std::chrono::milliseconds& value, JsonRange range) {
    std::int64_t count = 0;
    std::string problem = JsonValue<std::int64_t>::Read(json, count, range);
    if (problem.empty()) value = std::chrono::milliseconds(count);
    return problem;
  }
  static Json Write(std::chrono::milliseconds value) { return value.count(); }
};

template <typename T>
struct JsonValue<std::vector<T>> {
  static std::string Read(const Json& json, std::vector<T>& value, JsonRange range) {
    if (!json.is_array()) return "must be a list";
    if (json.size() > range.most_elements) {
      return "has too many elements: at most " + std::to_string(range.most_elements) +
             " may be there";
    }
    for (const Json& element : json) {
      std::string problem = JsonValue<T>::Read(element, value.emplace_back(), range);
      if (!problem.empty()) return "has an element that " + problem;
    }
    return {};
  }
  static Json Write(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(JsonValue<T>::Write(value));
    return list;
  }
};

template <typename T>
struct JsonValue<std::map<std::string, T>> {
  static std::string Read(const Json& json, std::map<std::string, T>& value, JsonRange range) {
    if (!json.is_object()) return "must be an object";
    for (const auto& [name, element] : json.items()) {
      std::string problem = JsonValue<T>::Read(element, value[name], range);
      if (!problem.empty()) return "has an element that " + problem;
    }
    return {};
  }
  static Json Write(const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [name, value] : values) object[name] = JsonValue<T>::Write(value);
    return object;
  }
};

template <typename T>
struct JsonValue<std::optional<T>> {
  static std::string Read(const Json& json, std::optional<T>& value, JsonRange range) {
    return JsonValue<T>::Read(json, value.emplace(), range);
  }
  static Json Write(const std::optional<T>& value) {
    return value.has_value() ? JsonValue<T>::Write(*value) : Json(nullptr);
  }
};

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_JSON_FIELDS_H_
