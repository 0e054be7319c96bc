#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "base/format.h"
#include "base/text/choice.h"
#include "datasets/record_dataset.h"
#include "files/process_hadoop.h"
#include "python/bind/bindings.h"
#include "python/objects/arrow_capsules.h"
#include "python/objects/errors.h"
#include "python/objects/exclusive.h"
#include "python/objects/gil.h"
#include "records/example/example_decoder.h"
#include "records/example/example_encoder.h"
#include "records/files/example_reader.h"
#include "records/files/record_files.h"
#include "records/files/record_index.h"
#include "records/schema/schema_inference.h"

namespace tfos::python {
namespace {

using records::ExampleDecoder;
using records::ExampleEncoder;
using records::ExampleReader;
using records::RecordReader;
using records::RecordType;
using records::RecordWriter;
using records::SchemaInference;

// What Python holds of each: their methods let go of the GIL.
using HeldReader = Exclusive<RecordReader>;
using HeldExampleReader = Exclusive<ExampleReader>;
using HeldWriter = Exclusive<RecordWriter>;
using HeldDecoder = Exclusive<ExampleDecoder>;
using HeldInference = Exclusive<SchemaInference>;

constexpr const char* kReader = "reader of records";

constexpr Choice<RecordType> kRecordTypes[] = {{"Example", RecordType::kExample},
                                               {"SequenceExample", RecordType::kSequenceExample}};

/// What records are read as: those that are bytes of any kind are a column, but tell none.
constexpr Choice<RecordType> kReadTypes[] = {{"Example", RecordType::kExample},
                                             {"SequenceExample", RecordType::kSequenceExample},
                                             {"ByteArray", RecordType::kByteArray}};

RecordType TypeFrom(const std::string& name) {
  return FileValueOrThrow(ChoiceNamed("record_type", kRecordTypes, name));
}

/// What is None stays as the native side has it.
template <typename T>
void Set(T& field, const std::optional<T>& value) {
  if (value) field = *value;
}

/// What of a file is read, and how: None for what is to be as the native side has it.
struct FileArguments {
  std::string path;
  std::string compression;
  std::optional<std::string> validation;
  std::optional<std::uint64_t> max_record_bytes;
  /// Offset of the begin, offset of the end, number of the first record.
  std::optional<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> part;
};

std::unique_ptr<RecordReader> Open(const FileArguments& arguments) {
  records::RecordFileOptions options;
  if (arguments.validation) {
    options.validation = FileValueOrThrow(records::ValidationFrom(*arguments.validation));
  }
  options.max_record_bytes = arguments.max_record_bytes;
  if (arguments.part) {
    std::tie(options.begin_offset, options.end_offset, options.first_record) = *arguments.part;
  }
  const auto compression = FileValueOrThrow(records::CompressionFrom(arguments.compression));
  return FileValueOrThrow(WithoutGil([&] {
    return records::OpenRecordFile(arguments.path, compression, options, files::ProcessFiles());
  }));
}

std::unique_ptr<ExampleDecoder> DecoderFor(nb::handle schema, const std::string& record_type) {
  const ArrowImport imported = ArrowImport::Schema(schema);
  const auto type = FileValueOrThrow(ChoiceNamed("record_type", kReadTypes, record_type));
  return FileValueOrThrow(ExampleDecoder::Create(
      FileValueOrThrow(records::ExampleSchema::FromArrow(imported.schema())), type));
}

/// Path and compression of a file.
using FileTuple = std::tuple<std::string, std::string>;

std::int64_t RegisterDataset(const std::vector<FileTuple>& files, nb::handle schema,
                             const std::string& record_type, const std::string& mode,
                             std::size_t rows, bool drop_remainder, std::uintptr_t add) {
  const ArrowImport imported = ArrowImport::Schema(schema);
  records::ExampleBatchesOptions options{
      .files = {},
      .schema = FileValueOrThrow(records::ExampleSchema::FromArrow(imported.schema())),
      .type = TypeFrom(record_type),
      .bad_records = FileValueOrThrow(records::BadRecordsFrom(mode)),
      .rows = rows,
      .drop_remainder = drop_remainder,
      .on_file_end = {}};
  for (const auto& [path, compression] : files) {
    options.files.push_back({path, FileValueOrThrow(records::CompressionFrom(compression))});
  }
  return FileValueOrThrow(datasets::RegisterRecordDataset(
      std::move(options), reinterpret_cast<tfos_register_function>(add)));
}

std::unique_ptr<HeldReader> OpenReader(const FileArguments& arguments) {
  return std::make_unique<HeldReader>(Open(arguments), kReader);
}

std::unique_ptr<HeldDecoder> MakeDecoder(nb::handle schema, const std::string& record_type) {
  return std::make_unique<HeldDecoder>(DecoderFor(schema, record_type), "decoder of records");
}

std::unique_ptr<HeldExampleReader> OpenExamples(const FileArguments& file, nb::handle schema,
                                                const std::string& record_type,
                                                const std::optional<std::string>& mode,
                                                std::optional<std::size_t> batch_rows,
                                                std::optional<std::uint64_t> batch_bytes,
                                                bool keep_bad) {
  records::ExampleReaderOptions options{.keep_bad = keep_bad};
  if (mode) options.bad_records = FileValueOrThrow(records::BadRecordsFrom(*mode));
  Set(options.batch_rows, batch_rows);
  Set(options.batch_bytes, batch_bytes);
  auto decoder = DecoderFor(schema, record_type);
  return std::make_unique<HeldExampleReader>(
      std::make_unique<ExampleReader>(Open(file), std::move(decoder), options), kReader);
}

std::optional<ArrowBatch> NextBatch(HeldExampleReader& held) {
  const auto reader = held.Enter("next");
  bool more = false;
  ArrowBatch batch([&](ArrowSchema& schema, ArrowArray& array) {
    more = FileValueOrThrow(WithoutGil([&] { return reader->Next(schema, array); }));
  });
  if (!more) return std::nullopt;
  return batch;
}

nb::list TakeBad(HeldExampleReader& held) {
  const auto reader = held.Enter("take_bad");
  nb::list result;
  for (const records::BadRecord& bad : reader->TakeBad()) {
    result.append(nb::make_tuple(bad.row, nb::bytes(bad.data.data(), bad.data.size())));
  }
  return result;
}

nb::dict CountsOf(HeldExampleReader& held) {
  const auto reader = held.Enter("counts");
  const records::ReadCounts& counts = reader->counts();
  nb::dict result;
  result["records"] = counts.records;
  result["bad_records"] = counts.bad_records;
  result["lost"] = counts.lost;
  result["first_problem"] = counts.first_problem;
  return result;
}

std::optional<nb::bytes> NextRecord(HeldReader& held) {
  const auto reader = held.Enter("next");
  const auto record = FileValueOrThrow(WithoutGil([&] { return reader->Next(); }));
  if (!record) return std::nullopt;
  return nb::bytes(record->data.data(), record->data.size());
}

nb::dict SurveyOf(HeldReader& held) {
  const auto reader = held.Enter("survey");
  const records::Survey survey =
      FileValueOrThrow(WithoutGil([&] { return records::SurveyRecords(*reader); }));
  nb::dict result;
  result["records"] = survey.records;
  result["record_bytes"] = survey.record_bytes;
  result["longest_bytes"] = survey.longest_bytes;
  result["bad_records"] = survey.bad_records;
  result["end_offset"] = survey.end_offset;
  result["lost"] = survey.lost;
  result["first_problem"] = survey.first_problem;
  return result;
}

std::span<const std::byte> BytesOf(nb::handle object) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object.ptr(), &data, &size) != 0) throw nb::python_error();
  return {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

std::unique_ptr<HeldWriter> Create(const std::string& path, const std::string& compression,
                                   std::optional<int> level, bool makes_directories) {
  const auto kind = FileValueOrThrow(records::CompressionFrom(compression));
  auto writer = FileValueOrThrow(WithoutGil([&] {
    return records::CreateRecordFile(
        path, kind, level.value_or(records::kDefaultCompressionLevel), files::ProcessFiles(),
        makes_directories ? records::Directories::kAsUsual : records::Directories::kMustBeThere);
  }));
  return std::make_unique<HeldWriter>(std::move(writer), "writer of records");
}

void WriteRecord(HeldWriter& held, const nb::bytes& record) {
  const auto writer = held.Enter("write");
  const std::span<const std::byte> bytes = BytesOf(record);
  ThrowIfFileError(WithoutGil([&] { return writer->Write(bytes); }));
}

void CloseWriter(HeldWriter& held) {
  const auto writer = held.Enter("close");
  ThrowIfFileError(WithoutGil([&] { return writer->Close(); }));
}

void WriteExamples(HeldWriter& held, nb::handle batch, const std::string& record_type) {
  const auto writer = held.Enter("write_examples");
  const ArrowImport imported = ArrowImport::Batch(batch);
  const auto encoder = FileValueOrThrow(ExampleEncoder::Open(
      imported.schema(), imported.array(), TypeFrom(record_type), writer->records()));
  ThrowIfFileError(WithoutGil([&]() -> Status {
    for (std::size_t row = 0; row < encoder->rows(); ++row) {
      TFOS_ASSIGN_OR_RETURN(const std::span<const std::byte> record, encoder->Encode(row));
      TFOS_RETURN_IF_ERROR(writer->Write(record));
    }
    return Status::Ok();
  }));
}

ArrowBatch DecodeExamples(HeldDecoder& shared, const nb::list& serialized) {
  const auto decoder = shared.Enter("decode");
  // A copy, as another thread may change the list while this one has let go of the GIL.
  const nb::tuple held(serialized);
  std::vector<std::span<const std::byte>> spans;
  spans.reserve(nb::len(held));
  for (const nb::handle record : held) spans.push_back(BytesOf(record));
  return ArrowBatch([&](ArrowSchema& schema, ArrowArray& array) {
    ThrowIfFileError(WithoutGil([&]() -> Status {
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const Status added = decoder->Add(spans[i]);
        if (added.ok()) continue;
        // What was added before it is of no use to the caller.
        decoder->Take(schema, array);
        return added.Annotate(fmt::format("record {}", i));
      }
      decoder->Take(schema, array);
      return Status::Ok();
    }));
  });
}

ArrowBatch EncodeExamples(nb::handle batch, const std::string& record_type) {
  const ArrowImport imported = ArrowImport::Batch(batch);
  const auto encoder = FileValueOrThrow(
      ExampleEncoder::Open(imported.schema(), imported.array(), TypeFrom(record_type)));
  return ArrowBatch([&](ArrowSchema& schema, ArrowArray& array) {
    ThrowIfFileError(WithoutGil([&] { return encoder->EncodeAll(schema, array); }));
  });
}

/// The content of a file that Python holds.
class BytesSource : public records::MemorySource {
 public:
  explicit BytesSource(nb::bytes content)
      : MemorySource("bytes", BytesOf(content)), content_(std::move(content)) {}

 private:
  nb::bytes content_;
};

std::unique_ptr<HeldReader> OpenBytes(nb::bytes content,
                                      const std::optional<std::string>& validation) {
  records::RecordReaderOptions options;
  if (validation) options.validation = FileValueOrThrow(records::ValidationFrom(*validation));
  return std::make_unique<HeldReader>(
      std::make_unique<RecordReader>(std::make_unique<BytesSource>(std::move(content)), options),
      kReader);
}

using PartTuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

std::vector<PartTuple> SplitFile(const std::string& path, std::uint64_t part_bytes) {
  const auto index =
      FileValueOrThrow(WithoutGil([&] { return records::LoadIndex(path, files::ProcessFiles()); }));
  std::vector<PartTuple> parts;
  for (const records::FilePart& part : index.Split(part_bytes)) {
    parts.emplace_back(part.begin_offset, part.end_offset, part.first_record);
  }
  return parts;
}

std::uint64_t MakeIndex(const std::string& path, std::optional<std::uint64_t> interval_bytes) {
  return FileValueOrThrow(WithoutGil([&]() -> Result<std::uint64_t> {
    TFOS_ASSIGN_OR_RETURN(
        const records::RecordIndex index,
        records::IndexFile(path, interval_bytes.value_or(records::kDefaultIndexInterval),
                           records::Validation::kFull, files::ProcessFiles()));
    TFOS_RETURN_IF_ERROR(records::SaveIndex(index, path, files::ProcessFiles()));
    return index.records;
  }));
}

}  // namespace

void BindRecords(nb::module_& module) {
  nb::class_<ArrowBatch>(module, "ArrowBatch",
                         "A record batch, or an array, for a library that takes one of Arrow.")
      .def(
          "__arrow_c_array__", [](const ArrowBatch& batch, nb::handle) { return batch.capsules(); },
          nb::arg("requested_schema") = nb::none());
  nb::class_<ArrowType>(module, "ArrowType", "A schema, for a library that takes one of Arrow.")
      .def("__arrow_c_schema__", &ArrowType::Capsule);

  nb::class_<FileArguments>(module, "RecordFile", "A TFRecord file, or a part of it.")
      .def(nb::init<std::string, std::string, std::optional<std::string>,
                    std::optional<std::uint64_t>, std::optional<PartTuple>>(),
           nb::arg("path"), nb::arg("compression"), nb::arg("validation").none(),
           nb::arg("max_record_bytes").none(), nb::arg("part").none());

  nb::class_<HeldReader>(module, "RecordReader", "The records of a file, as bytes.")
      .def(nb::new_(&OpenReader), nb::arg("file"))
      .def_static("of_bytes", &OpenBytes, nb::arg("content"), nb::arg("validation").none(),
                  "Of what a file contains.")
      .def("next", &NextRecord, "The next record, or None at the end.")
      .def_prop_ro(
          "number", [](HeldReader& held) { return held.Enter("number")->number(); },
          "Of the next record.")
      .def("survey", &SurveyOf, "Reads to the end; a dict of what there is.");

  nb::class_<HeldExampleReader>(module, "ExampleReader", "The tf.Examples of a file, as columns.")
      .def(nb::new_(&OpenExamples), nb::arg("file"), nb::arg("schema"), nb::arg("record_type"),
           nb::arg("mode").none(), nb::arg("batch_rows").none(), nb::arg("batch_bytes").none(),
           nb::arg("keep_bad"))
      .def("next", &NextBatch, "The next rows, or None at the end.")
      .def("take_bad", &TakeBad,
           "The records that became rows of nulls in the last batch: (row, bytes). Once.")
      .def("counts", &CountsOf, "What was read so far, and what was not.");

  module.def("register_record_dataset", &RegisterDataset, nb::arg("files"), nb::arg("schema"),
             nb::arg("record_type"), nb::arg("mode"), nb::arg("rows"), nb::arg("drop_remainder"),
             nb::arg("add"),
             "A handle of these files (path, compression) for the op TfosOpenPass. `add` is the "
             "address of the ops library's function.");

  nb::class_<HeldWriter>(module, "RecordWriter", "Writes a TFRecord file.")
      .def(nb::new_(&Create), nb::arg("path"), nb::arg("compression"), nb::arg("level").none(),
           nb::arg("makes_directories"))
      .def("write", &WriteRecord, nb::arg("record"))
      .def("write_examples", &WriteExamples, nb::arg("batch"), nb::arg("record_type"),
           "Writes each row of a record batch.")
      .def("close", &CloseWriter, "Without it the file is incomplete.")
      .def_prop_ro("records", [](HeldWriter& held) { return held.Enter("records")->records(); });

  nb::class_<HeldDecoder>(module, "ExampleDecoder", "Serialized tf.Examples to columns.")
      .def(nb::new_(&MakeDecoder), nb::arg("schema"), nb::arg("record_type"))
      .def("decode", &DecodeExamples, nb::arg("records"), "Of a list of bytes.");
  module.def("encode_examples", &EncodeExamples, nb::arg("batch"), nb::arg("record_type"),
             "Each row of a record batch as a serialized tf.Example: an array of binary.");

  nb::class_<HeldInference>(module, "SchemaInference", "The columns that records have.")
      .def(nb::new_([](const std::string& record_type, bool strings) {
             return std::make_unique<HeldInference>(
                 std::make_unique<SchemaInference>(
                     TypeFrom(record_type),
                     strings ? records::BytesAs::kStringWhereUtf8 : records::BytesAs::kBinary),
                 "schema inference");
           }),
           nb::arg("record_type"), nb::arg("strings"))
      .def(
          "add",
          [](HeldInference& held, const FileArguments& file, std::uint64_t most, bool only_sound) {
            const auto inference = held.Enter("add");
            const auto reader = Open(file);
            const auto infer = only_sound ? records::InferFromSound : records::InferFrom;
            return FileValueOrThrow(WithoutGil([&] { return infer(*reader, most, *inference); }));
          },
          nb::arg("file"), nb::arg("most"), nb::arg("only_sound"),
          "Looks at up to `most` records; how many there were.")
      .def(
          "add_record",
          [](HeldInference& held, const nb::bytes& record) {
            const auto inference = held.Enter("add_record");
            ThrowIfFileError(
                inference->Add(BytesOf(record), fmt::format("record {}", inference->records())));
          },
          nb::arg("record"), "Looks at one that is in memory.")
      .def("finish", [](HeldInference& held) {
        const auto inference = held.Enter("finish");
        return ArrowType(records::FieldOf(FileValueOrThrow(inference->Finish())));
      });

  module.def("make_record_index", &MakeIndex, nb::arg("path"), nb::arg("interval_bytes").none(),
             "Puts an index beside the file; the number of its records.");
  module.def("split_record_file", &SplitFile, nb::arg("path"), nb::arg("part_bytes"),
             "The parts of an indexed file: (begin, end, number of the first record).");
}

}  // namespace tfos::python
