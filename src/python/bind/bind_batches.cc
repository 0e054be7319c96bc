#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/format.h"
#include "datasets/batch_source.h"
#include "python/bind/bindings.h"
#include "python/feed/array_batches.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

using chunk::DType;
using columns::BatchColumnType;
using columns::BatchEncoding;

/// A column as Python has it: name, encoding, dtype ("" for strings), shape.
using ColumnTuple = std::tuple<std::string, std::string, std::string, std::vector<std::uint64_t>>;

constexpr std::pair<BatchEncoding, const char*> kEncodings[] = {
    {BatchEncoding::kDense, "dense"},
    {BatchEncoding::kRagged, "ragged"},
    {BatchEncoding::kStrings, "strings"},
    {BatchEncoding::kRaggedStrings, "ragged strings"}};

bool HoldsStrings(BatchEncoding encoding) {
  return encoding == BatchEncoding::kStrings || encoding == BatchEncoding::kRaggedStrings;
}

std::string EncodingName(BatchEncoding encoding) {
  for (const auto& [known, name] : kEncodings) {
    if (known == encoding) return name;
  }
  return "";
}

ColumnTuple TupleOf(const BatchColumnType& type) {
  return {type.name, EncodingName(type.encoding),
          HoldsStrings(type.encoding) ? "" : std::string(chunk::DTypeName(type.dtype)), type.shape};
}

BatchColumnType TypeFrom(const ColumnTuple& column) {
  const auto& [name, encoding, dtype, shape] = column;
  BatchColumnType type{.name = name, .shape = shape};
  bool found = false;
  for (const auto& [known, encoding_name] : kEncodings) {
    if (encoding != encoding_name) continue;
    type.encoding = known;
    found = HoldsStrings(known);
  }
  for (int number = 1; number <= static_cast<int>(DType::kComplex128); ++number) {
    if (found || chunk::DTypeName(static_cast<DType>(number)) != dtype) continue;
    type.dtype = static_cast<DType>(number);
    found = true;
  }
  if (!found) {
    ThrowStatus(Status(
        ErrorKind::kBadInput,
        fmt::format("column '{}' cannot be {} {}: a feed has none such", name, encoding, dtype)));
  }
  return type;
}

feed::BatchOptions OptionsFrom(const std::vector<ColumnTuple>& columns, std::uint64_t rows,
                               bool drop_remainder) {
  feed::BatchOptions options{.rows = rows, .drop_remainder = drop_remainder, .columns = {}};
  for (const ColumnTuple& column : columns) options.columns.push_back(TypeFrom(column));
  return options;
}

constexpr std::pair<feed::Remainder, const char*> kRemainders[] = {{feed::Remainder::kNone, "none"},
                                                                   {feed::Remainder::kJoin, "join"},
                                                                   {feed::Remainder::kDrop, "drop"},
                                                                   {feed::Remainder::kPad, "pad"}};

feed::Remainder RemainderFrom(const std::string& name) {
  for (const auto& [remainder, known] : kRemainders) {
    if (name == known) return remainder;
  }
  ThrowStatus(Status(ErrorKind::kBadInput,
                     fmt::format("remainder '{}' is none of 'join', 'drop' and 'pad'", name)));
}

std::optional<std::vector<ColumnTuple>> Peek(datasets::BatchSource& source, bool known) {
  const auto types = ValueOrThrow(WithoutGil([&] {
    const Wait wait = {.check = &CheckSignals};
    return known ? source.reader().KnownColumns(wait) : source.reader().Peek(wait);
  }));
  if (!types) return std::nullopt;
  std::vector<ColumnTuple> columns;
  for (const BatchColumnType& type : *types) columns.push_back(TupleOf(type));
  return columns;
}

std::int64_t Register(datasets::BatchSource& source, const std::vector<ColumnTuple>& columns,
                      std::uint64_t rows, bool drop_remainder, const std::string& remainder,
                      std::uintptr_t add, std::uintptr_t remove) {
  return ValueOrThrow(source.Register(OptionsFrom(columns, rows, drop_remainder),
                                      RemainderFrom(remainder),
                                      reinterpret_cast<tfos_register_function>(add),
                                      reinterpret_cast<tfos_unregister_function>(remove)));
}

std::unique_ptr<ArrayBatches> Arrays(datasets::BatchSource& source,
                                     const std::vector<ColumnTuple>& columns, std::uint64_t rows,
                                     bool drop_remainder, const std::string& remainder) {
  return std::make_unique<ArrayBatches>(ValueOrThrow(
      source.Open(OptionsFrom(columns, rows, drop_remainder), RemainderFrom(remainder))));
}

std::optional<std::uint32_t> EpochToBegin(datasets::BatchSource& source) {
  return ValueOrThrow(
      WithoutGil([&] { return source.reader().EpochToBegin({.check = &CheckSignals}); }));
}

void BeginAt(datasets::BatchSource& source, std::uint32_t epoch) {
  ThrowIfError(
      WithoutGil([&] { return source.reader().BeginAt(epoch, {.check = &CheckSignals}); }));
}

void TellEpoch(datasets::BatchSource& source) {
  ThrowIfError(WithoutGil([&] { return source.TellEpoch({.check = &CheckSignals}); }));
}

}  // namespace

void BindBatches(nb::module_& module) {
  nb::class_<ArrayBatches>(module, "ArrayBatches", "A dataset of batches as NumPy arrays.")
      .def("begin", &ArrayBatches::Begin, "A new pass begins.")
      .def("next", &ArrayBatches::Next,
           "Waits for the next batch: a list with the array of each tensor. Strings are arrays of "
           "bytes objects. None at the end of the pass.");
  nb::class_<datasets::BatchSource>(module, "BatchSource",
                                    "One queue of the feed as batches of columns.")
      .def("peek", &Peek, nb::arg("known"),
           "Waits for rows and says what they hold: tuples of name, encoding ('dense', 'ragged', "
           "'strings' or 'ragged strings'), dtype and shape. None when the feed has ended. "
           "`known`: those of the last "
           "rows that came will do.")
      .def("register", &Register, nb::arg("columns"), nb::arg("rows"), nb::arg("drop_remainder"),
           nb::arg("remainder"), nb::arg("add"), nb::arg("remove"),
           "Makes a handle for the op TfosNextBatch. `add` and `remove` are the addresses of the "
           "ops library's functions.")
      .def("arrays", &Arrays, nb::arg("columns"), nb::arg("rows"), nb::arg("drop_remainder"),
           nb::arg("remainder"), "The same dataset as NumPy arrays, without TensorFlow.")
      .def("tell_epoch", &TellEpoch,
           "Has the coordinator know that this node has come to the next epoch, where it goes in "
           "step.")
      .def("epoch_to_begin", &EpochToBegin,
           "The epoch that is read next; None in the middle of one.")
      .def("begin_at", &BeginAt, nb::arg("epoch"),
           "Reads on from this epoch, and past the ends of those before it.")
      .def("close", &datasets::BatchSource::Close, nb::call_guard<nb::gil_scoped_release>(),
           "Takes all handles back.");
}

}  // namespace tfos::python
