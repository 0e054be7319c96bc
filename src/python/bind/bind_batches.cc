#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/batch_source.h"
#include "feed/read/position/merged_position.h"
#include "python/bind/bindings.h"
#include "python/feed/array_batches.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

using columns::BatchColumnType;

/// A column as Python has it: name, encoding, dtype ("" for strings), shape.
using ColumnTuple = std::tuple<std::string, std::string, std::string, std::vector<std::uint64_t>>;

ColumnTuple TupleOf(const BatchColumnType& type) {
  return {type.name, std::string(columns::BatchEncodingName(type.encoding)),
          std::string(columns::BatchDTypeName(type)), type.shape};
}

feed::BatchOptions OptionsFrom(const std::vector<ColumnTuple>& columns, std::uint64_t rows,
                               bool drop_remainder) {
  feed::BatchOptions options{.rows = rows, .drop_remainder = drop_remainder, .columns = {}};
  for (const auto& [name, encoding, dtype, shape] : columns) {
    options.columns.push_back(ValueOrThrow(columns::BatchTypeFrom(name, encoding, dtype, shape)));
  }
  return options;
}

std::optional<std::vector<ColumnTuple>> Peek(datasets::BatchSource& source, bool known,
                                             const std::vector<std::string>& lists) {
  const auto types = ValueOrThrow(WithoutGil([&] {
    const Wait wait = {.check = &CheckSignals};
    return known ? source.reader().KnownColumns(wait) : source.reader().Peek(lists, wait);
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
                                      ValueOrThrow(feed::RemainderFrom(remainder)),
                                      reinterpret_cast<tfos_register_function>(add),
                                      reinterpret_cast<tfos_unregister_function>(remove)));
}

std::unique_ptr<ArrayBatches> Arrays(datasets::BatchSource& source,
                                     const std::vector<ColumnTuple>& columns, std::uint64_t rows,
                                     bool drop_remainder, const std::string& remainder) {
  return std::make_unique<ArrayBatches>(ValueOrThrow(source.Open(
      OptionsFrom(columns, rows, drop_remainder), ValueOrThrow(feed::RemainderFrom(remainder)))));
}

std::optional<std::uint32_t> EpochToBegin(datasets::BatchSource& source) {
  return ValueOrThrow(
      WithoutGil([&] { return source.reader().EpochToBegin({.check = &CheckSignals}); }));
}

void BeginAt(datasets::BatchSource& source, std::uint32_t epoch) {
  ThrowIfError(
      WithoutGil([&] { return source.reader().BeginAt(epoch, {.check = &CheckSignals}); }));
}

nb::bytes BytesOf(const std::vector<std::uint64_t>& numbers) {
  return nb::bytes(numbers.data(), numbers.size() * sizeof(std::uint64_t));
}

std::vector<std::uint64_t> NumbersOf(const nb::bytes& bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  }
  return numbers;
}

std::optional<nb::bytes> PositionAfter(datasets::BatchSource& source, std::uint32_t epoch,
                                       std::uint64_t batches) {
  feed::BatchReader& reader = source.reader();
  const auto position = WithoutGil([&] { return reader.PositionAfter(epoch, batches); });
  if (!position) return std::nullopt;
  return BytesOf(feed::Encode(reader.node_id(), *position));
}

/// The numbers of a line of a position, as checkpoints have them.
constexpr std::size_t kNumbersInLine = 7;

nb::bytes MergePositions(const std::vector<nb::bytes>& nodes, const nb::bytes& before) {
  std::vector<std::vector<std::uint64_t>> numbers;
  for (const nb::bytes& node : nodes) numbers.push_back(NumbersOf(node));
  const std::vector<std::uint64_t> lines = NumbersOf(before);
  std::vector<feed::TrainedRows> trained;
  for (std::size_t at = 0; at + kNumbersInLine <= lines.size(); at += kNumbersInLine) {
    trained.push_back({.partition = static_cast<std::uint32_t>(lines[at]),
                       .chunk = {.items = {lines[at + 1], lines[at + 2]},
                                 .checksum = static_cast<std::uint32_t>(lines[at + 3])},
                       .rows = lines[at + 4],
                       .trained = {lines[at + 5], lines[at + 6]}});
  }
  // There may be millions of chunks, and the threads of the feed go on meanwhile.
  const std::vector<feed::TrainedRows> all = ValueOrThrow(WithoutGil([&] {
    return feed::Merged({numbers.begin(), numbers.end()}, trained);
  }));
  std::vector<std::uint64_t> merged;
  for (const feed::TrainedRows& line : all) {
    merged.insert(merged.end(),
                  {line.partition, line.chunk.items.begin, line.chunk.items.end,
                   line.chunk.checksum, line.rows, line.trained.begin, line.trained.end});
  }
  return BytesOf(merged);
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
      .def("peek", &Peek, nb::arg("known"), nb::arg("lists") = std::vector<std::string>(),
           "Waits for rows and says what they hold: tuples of name, encoding ('dense', 'ragged', "
           "'strings' or 'ragged strings'), dtype and shape. None when the feed has ended. "
           "`known`: those of the last rows that came will do. Lists that were all empty are "
           "'dense' without a dtype. If they are those of a column in `lists`, it reads on for a "
           "while until one is not empty.")
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
      .def(
          "keep_log", [](datasets::BatchSource& source) { source.reader().KeepLog(); },
          "Remembers from now on what batches are made of, for position_after.")
      .def("position_after", &PositionAfter, nb::arg("epoch"), nb::arg("batches"),
           "For merge_positions: which rows a program has trained on after the first batches of an "
           "epoch. None where that is not known.")
      .def(
          "batches_of",
          [](datasets::BatchSource& source, std::uint32_t epoch) {
            return source.reader().BatchesOf(epoch);
          },
          nb::arg("epoch"),
          "How many batches of an epoch were asked for, since keep_log. None where that is not "
          "known.")
      .def_prop_ro(
          "epochs", [](datasets::BatchSource& source) { return source.reader().whole_epochs(); },
          "How many epochs were read to their end.")
      .def_prop_ro(
          "cut_short", &datasets::BatchSource::cut_short,
          "Whether what ended the last pass was the feed, rather than the end of an epoch.")
      .def_prop_ro(
          "stopped", [](datasets::BatchSource& source) { return source.reader().stopped(); },
          "Whether `tfos stop` has ended the feed.")
      .def("close", &datasets::BatchSource::Close, nb::call_guard<nb::gil_scoped_release>(),
           "Takes all handles back.");
  module.def(
      "merge_positions", &MergePositions, nb::arg("nodes"), nb::arg("before"),
      "Which rows all nodes together have trained on, and an earlier cluster `before`: uint64 "
      "numbers of partition, first item, item after the last, checksum, rows of the chunk, "
      "first row, row after the last. FeedError where that is not known.");
}

}  // namespace tfos::python
