// How the row encoder finds out why rows have no columns.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "python/codec/row_encoder.h"

namespace tfos::python {
namespace {

using Objects = std::vector<nb::object>;

/// What values have in one place, such as "field 'x' of a row".
struct Part {
  std::string name;
  Objects values;
};

std::string TypeName(nb::handle value) {
  if (value.is_none()) return "None";
  const nb::handle type = value.type();
  const std::string module = MessageText(nb::getattr(type, "__module__", nb::str("builtins")));
  const std::string name = MessageText(type.attr("__qualname__"));
  return module == "builtins" ? name : fmt::format("{}.{}", module, name);
}

/// Whether the encoder finds a column for them.
bool HaveColumn(const Objects& values) {
  nb::list list;
  for (const nb::object& value : values) list.append(value);
  RowEncoder encoder(/*pickles=*/true, RowEncoder::Arrays::kValues);
  if (!encoder.PlanColumn(list, 0, values.size())) return false;
  AlignedBuffer room(encoder.bytes());
  return room.size() == encoder.bytes() && encoder.Fill(room.bytes());
}

/// The items of sequences of one length.
std::optional<std::vector<Part>> ItemsOf(const Part& part, bool row) {
  const std::size_t length = nb::len(part.values.front());
  std::vector<Part> items(length);
  for (std::size_t i = 0; i < length; ++i) {
    items[i].name = fmt::format("{} {} of {}", row ? "field" : "item", i, part.name);
  }
  for (const nb::object& value : part.values) {
    if (nb::len(value) != length) return std::nullopt;
    for (std::size_t i = 0; i < length; ++i) items[i].values.push_back(value[i]);
  }
  return items;
}

/// The fields of dicts or Spark's rows that have the same ones in the same order.
std::optional<std::vector<Part>> FieldsOf(const Part& part, const char* attribute) {
  const auto names_of = [&](const nb::object& value) {
    return nb::list(attribute == nullptr ? value : nb::getattr(value, attribute, nb::list()));
  };
  const nb::list names = names_of(part.values.front());
  std::vector<Part> fields;
  for (const nb::handle name : names) {
    fields.push_back(
        {.name = fmt::format("field '{}' of {}", MessageText(name), part.name), .values = {}});
  }
  for (const nb::object& value : part.values) {
    if (!names_of(value).equal(names)) return std::nullopt;
    for (std::size_t i = 0; i < fields.size(); ++i) fields[i].values.push_back(value[names[i]]);
  }
  return fields;
}

/// The parts of values of one type; none if they have not the same ones.
std::optional<std::vector<Part>> PartsOf(const Part& part, bool row) {
  const nb::object& first = part.values.front();
  if (IsExactly(first.ptr(), &PyList_Type) || IsExactly(first.ptr(), &PyTuple_Type)) {
    return ItemsOf(part, row);
  }
  if (IsExactly(first.ptr(), &PyDict_Type)) return FieldsOf(part, nullptr);
  if (TypeName(first) == "pyspark.sql.types.Row") return FieldsOf(part, "__fields__");
  return std::vector<Part>();
}

/// Values of one type and with the same parts, or none, of which no part is at fault.
std::string OfItself(const Part& part) {
  const nb::object& first = part.values.front();
  const std::string type = TypeName(first);
  if (type == "int") return fmt::format("{} is an int of more than 64 bits", part.name);
  if (type == "str") return fmt::format("{} is a str that has no UTF-8", part.name);
  if (type == "numpy.ndarray") {
    return fmt::format("{} is a numpy.ndarray of a dtype ({}) or of shapes that no column has",
                       part.name, MessageText(first.attr("dtype")));
  }
  if (type == "dict") return fmt::format("{} is a dict with other keys than str", part.name);
  return fmt::format("{} is of the type {}", part.name, type);
}

std::string Why(const Part& part, bool row) {
  const nb::object& first = part.values.front();
  for (const nb::object& value : part.values) {
    if (!value.type().is(first.type())) {
      return fmt::format("{} is of the type {} in one row and {} in another", part.name,
                         TypeName(first), TypeName(value));
    }
  }
  const std::optional<std::vector<Part>> parts = PartsOf(part, row);
  if (!parts) {
    return fmt::format(
        "{} is a {} with other fields, or another number of them, in one row than "
        "in another",
        part.name, TypeName(first));
  }
  const auto fault =
      std::ranges::find_if(*parts, [](const Part& one) { return !HaveColumn(one.values); });
  return fault == parts->end() ? OfItself(part) : Why(*fault, false);
}

}  // namespace

std::string RowEncoder::WhyNoColumns() const {
  Part all{.name = "a row", .values = {}};
  const std::size_t end = std::min(end_, nb::len(rows_));
  for (std::size_t i = begin_; i < end; ++i) all.values.push_back(rows_[i]);
  // Another thread may have taken them away.
  return all.values.empty() ? "the rows have changed" : Why(all, true);
}

}  // namespace tfos::python
