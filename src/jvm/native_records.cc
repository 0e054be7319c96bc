// The native methods of tfos.internal.records.NativeRecords: TFRecord files.

#include <jni.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "arrow/releasing.h"
#include "base/format.h"
#include "base/memory/buffer_pool.h"
#include "hadoop/java/jvm.h"
#include "jvm/column_layout.h"
#include "jvm/columns.h"
#include "jvm/java_call.h"
#include "jvm/java_stream.h"
#include "records/example/example_decoder.h"
#include "records/example/example_encoder.h"
#include "records/example/feature_column.h"
#include "records/files/example_reader.h"
#include "records/files/index_builder.h"
#include "records/files/record_files.h"
#include "records/files/record_index.h"
#include "records/framing/compression.h"
#include "records/framing/record_reader.h"
#include "records/framing/record_writer.h"
#include "records/schema/example_schema.h"
#include "records/schema/record_options.h"
#include "records/schema/schema_inference.h"

namespace tfos::jvm {
namespace {

using hadoop::TextOf;
using records::ExampleDecoder;
using records::RecordType;
using records::SchemaInference;

using nlohmann::json;
using records::ExampleReader;
using records::ExampleReaderOptions;
using records::IndexBuilder;

struct Writer {
  std::unique_ptr<records::RecordWriter> records;
  IndexBuilder* index = nullptr;  ///< The writer's sink, where there is to be an index.
  RecordType type = RecordType::kExample;
  arrow::Field columns;
};

/// What is read of a file, and how: the options of tfos.internal.records.NativeRecords.newReader.
struct Reader {
  std::unique_ptr<ExampleReader> records;
  /// The bytes of bad records, as the last column.
  std::optional<records::ExampleColumn> bad;
};

Result<records::ExampleSchema> SchemaFrom(const json& type) {
  ArrowSchema schema = arrow::ExportSchema(TypeFromJson(type));
  const arrow::Releasing release(schema);
  return records::ExampleSchema::FromArrow(schema);
}

Result<std::unique_ptr<records::RecordReader>> OpenRecords(
    JNIEnv* java, jobject stream, jstring name, const std::string& compression,
    records::RecordFileOptions options = {}) {
  TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionFrom(compression));
  TFOS_ASSIGN_OR_RETURN(auto file, OpenSource(java, stream, TextOf(java, name)));
  return records::OpenRecordFile(std::move(file), kind, options);
}

Result<Reader> OpenReader(JNIEnv* java, jobject stream, jstring name, const json& options) {
  records::RecordFileOptions part{.begin_offset = options.at("begin"),
                                  .end_offset = options.at("end"),
                                  .first_record = options.at("firstRecord")};
  TFOS_ASSIGN_OR_RETURN(part.validation,
                        records::ValidationFrom(options.at("validation").get<std::string>()));
  ExampleReaderOptions how{.batch_rows = options.at("batchRows"),
                           .batch_bytes = options.at("batchBytes")};
  TFOS_ASSIGN_OR_RETURN(how.bad_records,
                        records::BadRecordsFrom(options.at("mode").get<std::string>()));
  const std::string bad_column = options.at("badColumn");
  how.keep_bad = !bad_column.empty();
  TFOS_ASSIGN_OR_RETURN(const RecordType type,
                        records::RecordTypeNamed(options.at("recordType").get<std::string>()));
  TFOS_ASSIGN_OR_RETURN(auto schema, SchemaFrom(options.at("columns")));
  TFOS_ASSIGN_OR_RETURN(auto decoder, ExampleDecoder::Create(std::move(schema), type));
  TFOS_ASSIGN_OR_RETURN(auto file,
                        OpenRecords(java, stream, name, options.at("compression"), part));
  Reader reader;
  reader.records = std::make_unique<ExampleReader>(std::move(file), std::move(decoder), how);
  if (how.keep_bad) {
    reader.bad = {.name = bad_column, .type = records::ElementType::kBinary};
  }
  return reader;
}

/// The column of the bad records among so many rows.
Result<arrow::Field> BadColumn(const records::ExampleColumn& column, std::size_t rows,
                               const std::vector<records::BadRecord>& bad) {
  BufferPool memory;
  records::FeatureColumn values(column, memory);
  for (const records::BadRecord& record : bad) {
    while (values.rows() < record.row) values.AppendNull();
    TFOS_RETURN_IF_ERROR(values.AppendBytes(std::as_bytes(std::span(record.data))));
  }
  while (values.rows() < rows) values.AppendNull();
  return values.Take();
}

/// The next rows; no rows at the end.
Result<arrow::Field> Next(Reader& reader) {
  TFOS_RETURN_IF_ERROR(reader.records->Fill().status());
  arrow::Field columns = reader.records->decoder().Take();
  if (reader.bad) {
    TFOS_ASSIGN_OR_RETURN(arrow::Field bad,
                          BadColumn(*reader.bad, columns.length, reader.records->TakeBad()));
    columns.children.push_back(std::move(bad));
  }
  return columns;
}

json CountsOf(const records::ReadCounts& counts) {
  return {{"records", counts.records},
          {"badRecords", counts.bad_records},
          {"lost", counts.lost},
          {"firstProblem", counts.first_problem}};
}

Result<Writer> OpenWriter(JNIEnv* java, jobject stream, jstring name, const json& options) {
  Writer writer;
  writer.columns = TypeFromJson(options.at("columns"));
  TFOS_ASSIGN_OR_RETURN(writer.type,
                        records::RecordTypeNamed(options.at("recordType").get<std::string>()));
  TFOS_ASSIGN_OR_RETURN(const auto kind,
                        records::CompressionFrom(options.at("compression").get<std::string>()));
  TFOS_ASSIGN_OR_RETURN(auto sink, OpenSink(java, stream, TextOf(java, name)));
  TFOS_ASSIGN_OR_RETURN(sink, records::Compress(std::move(sink), kind, options.at("level")));
  if (options.at("index").get<bool>()) {
    auto index = std::make_unique<IndexBuilder>(std::move(sink));
    writer.index = index.get();
    sink = std::move(index);
  }
  writer.records = std::make_unique<records::RecordWriter>(std::move(sink));
  return writer;
}

Status WriteRecord(Writer& writer, std::span<const std::byte> record) {
  if (writer.index != nullptr) {
    writer.index->AddRecord(writer.records->offset(), writer.records->records());
  }
  return writer.records->Write(record);
}

/// The values of the only column, each a record.
Status WriteBytes(Writer& writer, const arrow::Field& table) {
  const arrow::Field& column = table.children.at(0);
  if (column.nulls != 0) {
    return {
        ErrorKind::kBadInput,
        fmt::format("column {} has nulls, which are not records; filter them out", column.name)};
  }
  const auto* const ends = static_cast<const std::int32_t*>(column.buffers.at(1));
  const auto* const data = static_cast<const std::byte*>(column.buffers.at(2));
  for (std::size_t row = 0; row < table.length; ++row) {
    const auto begin = static_cast<std::size_t>(ends[row]);
    const auto end = static_cast<std::size_t>(ends[row + 1]);
    TFOS_RETURN_IF_ERROR(WriteRecord(writer, {data + begin, end - begin}));
  }
  return Status::Ok();
}

Status Write(Writer& writer, std::span<const std::int64_t> numbers) {
  TFOS_ASSIGN_OR_RETURN(arrow::Field values, ValuesFrom(writer.columns, numbers));
  if (writer.type == RecordType::kByteArray) return WriteBytes(writer, values);
  ArrowSchema schema = arrow::ExportSchema(writer.columns);
  const arrow::Releasing release_schema(schema);
  ArrowArray array = arrow::ExportArray(std::move(values));
  const arrow::Releasing release_array(array);
  TFOS_ASSIGN_OR_RETURN(
      const auto encoder,
      records::ExampleEncoder::Open(schema, array, writer.type, writer.records->records()));
  for (std::size_t row = 0; row < encoder->rows(); ++row) {
    TFOS_ASSIGN_OR_RETURN(const std::span<const std::byte> record, encoder->Encode(row));
    TFOS_RETURN_IF_ERROR(WriteRecord(writer, record));
  }
  return Status::Ok();
}

/// [begin, end, first record] of the part of a file that its index says for bytes from `begin` to
/// `end`.
Result<std::array<jlong, 3>> PartOf(const std::string& index, const std::string& name,
                                    std::uint64_t bytes, const std::string& head,
                                    const std::string& tail, std::uint64_t begin,
                                    std::uint64_t end) {
  const auto span = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const Result<records::RecordIndex> parsed = records::RecordIndex::Parse(span(index));
  if (!parsed.ok()) {
    return parsed.status().Annotate(fmt::format("{}: make it again", records::IndexPathOf(name)));
  }
  TFOS_RETURN_IF_ERROR(parsed->CheckContent(name, bytes, span(head), span(tail)));
  const records::FilePart part = parsed->Within(begin, end);
  return std::array{static_cast<jlong>(part.begin_offset), static_cast<jlong>(part.end_offset),
                    static_cast<jlong>(part.first_record)};
}

}  // namespace
}  // namespace tfos::jvm

using namespace tfos;       // NOLINT: what follows is C.
using namespace tfos::jvm;  // NOLINT

extern "C" {

JNIEXPORT jlong JNICALL Java_tfos_internal_records_NativeRecords_newInference(JNIEnv* java,
                                                                              jclass /*type*/,
                                                                              jstring record_type,
                                                                              jboolean strings) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(const RecordType type,
                          records::RecordTypeNamed(TextOf(java, record_type)));
    return Hold(SchemaInference(type, strings == JNI_TRUE ? records::BytesAs::kStringWhereUtf8
                                                          : records::BytesAs::kBinary));
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_records_NativeRecords_infer(
    JNIEnv* java, jclass /*type*/, jlong inference, jobject stream, jstring name,
    jstring compression, jstring validation, jlong most, jboolean only_sound) {
  return Enter(java, [&]() -> Result<jlong> {
    records::RecordFileOptions options;
    TFOS_ASSIGN_OR_RETURN(options.validation, records::ValidationFrom(TextOf(java, validation)));
    TFOS_ASSIGN_OR_RETURN(const auto reader,
                          OpenRecords(java, stream, name, TextOf(java, compression), options));
    const auto infer = only_sound == JNI_TRUE ? records::InferFromSound : records::InferFrom;
    TFOS_ASSIGN_OR_RETURN(
        const std::uint64_t added,
        infer(*reader, static_cast<std::uint64_t>(most), Held<SchemaInference>(inference)));
    return static_cast<jlong>(added);
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_records_NativeRecords_inferred(JNIEnv* java,
                                                                            jclass /*type*/,
                                                                            jlong inference) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto schema, Held<SchemaInference>(inference).Finish());
    return ToJava(java, TypeToJson(records::FieldOf(schema)).dump());
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_NativeRecords_deleteInference(JNIEnv* /*java*/,
                                                                                jclass /*type*/,
                                                                                jlong inference) {
  Release<SchemaInference>(inference);
}

JNIEXPORT jlong JNICALL Java_tfos_internal_records_NativeRecords_newReader(
    JNIEnv* java, jclass /*type*/, jobject stream, jstring name, jstring options) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(Reader reader,
                          OpenReader(java, stream, name, json::parse(TextOf(java, options))));
    return Hold(std::move(reader));
  });
}

JNIEXPORT jlongArray JNICALL Java_tfos_internal_records_NativeRecords_next(JNIEnv* java,
                                                                           jclass /*type*/,
                                                                           jlong reader) {
  return Enter(java, [&]() -> Result<jlongArray> {
    TFOS_ASSIGN_OR_RETURN(arrow::Field columns, Next(Held<Reader>(reader)));
    return GiveColumns(java, std::move(columns));
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_records_NativeRecords_counts(JNIEnv* java,
                                                                          jclass /*type*/,
                                                                          jlong reader) {
  return Enter(java, [&]() -> Result<jstring> {
    return ToJava(java, CountsOf(Held<Reader>(reader).records->counts())
                            .dump(-1, ' ', false, json::error_handler_t::replace));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_NativeRecords_deleteReader(JNIEnv* /*java*/,
                                                                             jclass /*type*/,
                                                                             jlong reader) {
  Release<Reader>(reader);
}

JNIEXPORT jlongArray JNICALL Java_tfos_internal_records_NativeRecords_part(
    JNIEnv* java, jclass /*type*/, jbyteArray index, jstring name, jlong bytes, jbyteArray head,
    jbyteArray tail, jlong begin, jlong end) {
  return Enter(java, [&]() -> Result<jlongArray> {
    TFOS_ASSIGN_OR_RETURN(
        const auto part,
        PartOf(BytesFrom(java, index), TextOf(java, name), static_cast<std::uint64_t>(bytes),
               BytesFrom(java, head), BytesFrom(java, tail), static_cast<std::uint64_t>(begin),
               static_cast<std::uint64_t>(end)));
    jlongArray result = java->NewLongArray(static_cast<jsize>(part.size()));
    if (result != nullptr) {
      java->SetLongArrayRegion(result, 0, static_cast<jsize>(part.size()), part.data());
    }
    return result;
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_records_NativeRecords_newWriter(
    JNIEnv* java, jclass /*type*/, jobject stream, jstring name, jstring options) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(Writer writer,
                          OpenWriter(java, stream, name, json::parse(TextOf(java, options))));
    return Hold(std::move(writer));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_NativeRecords_write(JNIEnv* java, jclass /*type*/,
                                                                      jlong writer,
                                                                      jlongArray columns) {
  Enter(java, [&] { return Write(Held<Writer>(writer), NumbersFrom(java, columns)); });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_NativeRecords_finish(JNIEnv* java,
                                                                       jclass /*type*/,
                                                                       jlong writer) {
  Enter(java, [&] { return Held<Writer>(writer).records->Close(); });
}

JNIEXPORT jbyteArray JNICALL Java_tfos_internal_records_NativeRecords_index(JNIEnv* java,
                                                                            jclass /*type*/,
                                                                            jlong writer) {
  return Enter(java, [&]() -> Result<jbyteArray> {
    Writer& held = Held<Writer>(writer);
    const std::string index = held.index->Finish(held.records->records()).Serialize();
    jbyteArray bytes = java->NewByteArray(static_cast<jsize>(index.size()));
    if (bytes != nullptr) {
      java->SetByteArrayRegion(bytes, 0, static_cast<jsize>(index.size()),
                               reinterpret_cast<const jbyte*>(index.data()));
    }
    return bytes;
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_NativeRecords_deleteWriter(JNIEnv* /*java*/,
                                                                             jclass /*type*/,
                                                                             jlong writer) {
  Release<Writer>(writer);
}

}  // extern "C"
