#include "jvm/column_layout.h"

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos::jvm {
namespace {

// As many as any type of Arrow has, with room to spare.
constexpr std::int64_t kMostBuffers = 8;

void AppendNumbers(const arrow::Field& field, std::vector<std::int64_t>& numbers) {
  numbers.push_back(static_cast<std::int64_t>(field.length));
  numbers.push_back(static_cast<std::int64_t>(field.nulls));
  numbers.push_back(static_cast<std::int64_t>(field.buffers.size()));
  for (const void* buffer : field.buffers) {
    numbers.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffer)));
  }
  for (const arrow::Field& child : field.children) AppendNumbers(child, numbers);
}

/// Takes numbers off the front, one field after the other.
class NumberReader {
 public:
  explicit NumberReader(std::span<const std::int64_t> numbers) : left_(numbers) {}

  bool Fill(arrow::Field& field) {
    std::int64_t length = 0;
    std::int64_t nulls = 0;
    std::int64_t buffers = 0;
    if (!Take(length) || !Take(nulls) || !Take(buffers)) return false;
    if (length < 0 || nulls < 0 || nulls > length || buffers < 0 || buffers > kMostBuffers) {
      return false;
    }
    field.length = static_cast<std::uint64_t>(length);
    field.nulls = static_cast<std::uint64_t>(nulls);
    field.buffers.clear();
    for (std::int64_t i = 0; i < buffers; ++i) {
      std::int64_t address = 0;
      if (!Take(address)) return false;
      field.buffers.push_back(
          reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)));  // NOLINT
    }
    for (arrow::Field& child : field.children) {
      if (!Fill(child)) return false;
    }
    return true;
  }

  bool done() const { return left_.empty(); }

 private:
  bool Take(std::int64_t& number) {
    if (left_.empty()) return false;
    number = left_.front();
    left_ = left_.subspan(1);
    return true;
  }

  std::span<const std::int64_t> left_;
};

}  // namespace

nlohmann::json TypeToJson(const arrow::Field& type) {
  nlohmann::json children = nlohmann::json::array();
  for (const arrow::Field& child : type.children) children.push_back(TypeToJson(child));
  return {{"name", type.name},
          {"format", type.format},
          {"nullable", type.nullable},
          {"children", std::move(children)}};
}

arrow::Field TypeFromJson(const nlohmann::json& json) {
  arrow::Field type{.name = json.at("name").get<std::string>(),
                    .format = json.at("format").get<std::string>(),
                    .nullable = json.at("nullable").get<bool>(),
                    .buffers = {},
                    .memory = {},
                    .children = {}};
  for (const nlohmann::json& child : json.at("children")) {
    type.children.push_back(TypeFromJson(child));
  }
  return type;
}

std::vector<std::int64_t> NumbersOf(const arrow::Field& values) {
  std::vector<std::int64_t> numbers;
  AppendNumbers(values, numbers);
  return numbers;
}

Result<arrow::Field> ValuesFrom(arrow::Field type, std::span<const std::int64_t> numbers) {
  NumberReader reader(numbers);
  if (!reader.Fill(type) || !reader.done()) {
    return Status(ErrorKind::kBug,
                  fmt::format("{} numbers from Java do not describe values of the Arrow type '{}'",
                              numbers.size(), type.format));
  }
  return type;
}

}  // namespace tfos::jvm
