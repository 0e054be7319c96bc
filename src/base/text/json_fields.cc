#include "base/text/json_fields.h"

#include <algorithm>

#include "base/format.h"

namespace tfos {
namespace {

constexpr std::size_t kMaxDepth = 64;  // of nested objects and lists
constexpr const char* kMustBeBytes = "must be bytes: characters from U+0001 to U+00FF";

// The parser keeps its own stack, but writing a value back recurses: bound how deep that can go.
bool TooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
    }
  }
  return false;
}

bool ToBytes(std::string& value) {
  std::optional<std::string> bytes = BytesOfText(value);
  if (bytes.has_value()) value = *std::move(bytes);
  return bytes.has_value();
}

}  // namespace

std::optional<std::string> BytesOfText(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      if (byte > 0xC3 || i + 1 == text.size()) return std::nullopt;
      byte = static_cast<unsigned char>((byte << 6) | (text[++i] & 0x3F));
    }
    // For the operating system it would be the end.
    if (byte == 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string TextOfBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xC0 | (byte >> 6));
    text += byte < 0x80 ? c : static_cast<char>(0x80 | (byte & 0x3F));
  }
  return text;
}

Result<Json> ParseJsonObject(std::string_view text, std::size_t max_bytes, std::string_view what) {
  if (text.size() > max_bytes) {
    return Status(ErrorKind::kBadInput, fmt::format("{} is longer than {} bytes", what, max_bytes));
  }
  if (TooDeep(text)) {
    return Status(ErrorKind::kBadInput, fmt::format("{} is nested too deeply", what));
  }
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Status(ErrorKind::kBadInput, fmt::format("{} is not a JSON object", what));
  }
  return json;
}

std::string WriteJsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void JsonReader::RequiredBytes(const char* name, std::string& value) {
  Required(name, value);
  if (!ToBytes(value)) Refuse(name, kMustBeBytes);
}

void JsonReader::RequiredBytes(const char* name, std::vector<std::string>& values) {
  Required(name, values);
  if (!std::ranges::all_of(values, ToBytes)) Refuse(name, kMustBeBytes);
}

void JsonReader::Refuse(const char* name, const std::string& problem) {
  if (error_.empty() && !problem.empty()) error_ = fmt::format("field '{}' {}", name, problem);
}

std::string JsonValue<bool>::Read(const Json& json, bool& value, JsonRange) {
  if (!json.is_boolean()) return "must be true or false";
  value = json.get<bool>();
  return {};
}

std::string JsonValue<std::int64_t>::Read(const Json& json, std::int64_t& value, JsonRange range) {
  // An unsigned value beyond int64 would wrap in the conversion, so it is ruled out first.
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() || json.get<std::uint64_t>() <= kMost);
  if (!fits || json.get<std::int64_t>() < range.min || json.get<std::int64_t>() > range.max) {
    return fmt::format("must be a whole number from {} to {}", range.min, range.max);
  }
  value = json.get<std::int64_t>();
  return {};
}

std::string JsonValue<double>::Read(const Json& json, double& value, JsonRange) {
  if (!json.is_number()) return "must be a number";
  value = json.get<double>();
  return {};
}

std::string JsonValue<std::string>::Read(const Json& json, std::string& value, JsonRange range) {
  if (!json.is_string()) return "must be a string";
  const auto& text = json.get_ref<const std::string&>();
  const auto bytes = static_cast<std::int64_t>(text.size());
  if (bytes < range.min || bytes > range.max) {
    return fmt::format("must have {} to {} bytes", range.min, range.max);
  }
  value = text;
  return {};
}

}  // namespace tfos
