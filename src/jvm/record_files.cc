// The native methods of tfos.internal.NativeRecords: TFRecord files of tf.Examples.

#include "records/record_files.h"

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "base/format.h"
#include "hadoop/jvm.h"
#include "jvm/column_layout.h"
#include "jvm/columns.h"
#include "jvm/java_call.h"
#include "jvm/java_stream.h"
#include "records/compression.h"
#include "records/example_decoder.h"
#include "records/example_encoder.h"
#include "records/example_schema.h"
#include "records/record_reader.h"
#include "records/record_writer.h"
#include "records/schema_inference.h"

namespace tfos::jvm {
namespace {

using hadoop::TextOf;
using records::ExampleDecoder;
using records::RecordType;
using records::SchemaInference;

// Rows of a batch, and bytes of their records, that one call gives to Java.
constexpr std::size_t kBatchRows = 1'024;
constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;

struct Reader {
  std::unique_ptr<records::RecordReader> records;
  std::unique_ptr<ExampleDecoder> decoder;
};

struct Writer {
  std::unique_ptr<records::RecordWriter> records;
  arrow::Field columns;
};

Result<records::ExampleSchema> SchemaFrom(const std::string& type) {
  ArrowSchema schema = arrow::ExportSchema(TypeFromJson(nlohmann::json::parse(type)));
  auto result = records::ExampleSchema::FromArrow(schema);
  schema.release(&schema);
  return result;
}

Result<std::unique_ptr<records::RecordReader>> OpenRecords(JNIEnv* java, jobject stream,
                                                           jstring name, jstring compression) {
  TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionFrom(TextOf(java, compression)));
  TFOS_ASSIGN_OR_RETURN(auto file, OpenSource(java, stream, TextOf(java, name)));
  TFOS_ASSIGN_OR_RETURN(auto source, records::Decompress(std::move(file), kind));
  return std::make_unique<records::RecordReader>(std::move(source));
}

Status Annotated(const Reader& reader, const Status& status) {
  return status.Annotate(
      fmt::format("{}, record {}", reader.records->source().name(), reader.records->number() - 1));
}

/// The next rows; no rows at the end.
Result<arrow::Field> Next(Reader& reader) {
  ExampleDecoder& decoder = *reader.decoder;
  while (decoder.rows() < kBatchRows && decoder.bytes() < kBatchBytes) {
    TFOS_ASSIGN_OR_RETURN(const auto record, reader.records->Next());
    if (!record) break;
    if (const Status added = decoder.Add(record->data); !added.ok()) {
      return Annotated(reader, added);
    }
  }
  return decoder.Take();
}

Status Write(Writer& writer, std::span<const std::int64_t> numbers) {
  TFOS_ASSIGN_OR_RETURN(arrow::Field values, ValuesFrom(writer.columns, numbers));
  ArrowSchema schema = arrow::ExportSchema(writer.columns);
  ArrowArray array = arrow::ExportArray(std::move(values));
  const auto encode = [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const auto encoder,
                          records::ExampleEncoder::Open(schema, array, RecordType::kExample));
    for (std::size_t row = 0; row < encoder->rows(); ++row) {
      TFOS_ASSIGN_OR_RETURN(const std::span<const std::byte> record, encoder->Encode(row));
      TFOS_RETURN_IF_ERROR(writer.records->Write(record));
    }
    return Status::Ok();
  };
  const Status encoded = encode();
  array.release(&array);
  schema.release(&schema);
  return encoded;
}

}  // namespace
}  // namespace tfos::jvm

using namespace tfos;       // NOLINT: what follows is C.
using namespace tfos::jvm;  // NOLINT

extern "C" {

JNIEXPORT jlong JNICALL Java_tfos_internal_NativeRecords_newInference(JNIEnv* java,
                                                                      jclass /*type*/) {
  return Enter(java, []() -> Result<jlong> {
    return Hold(SchemaInference(RecordType::kExample, records::BytesAs::kStringWhereUtf8));
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_NativeRecords_infer(JNIEnv* java, jclass /*type*/,
                                                               jlong inference, jobject stream,
                                                               jstring name, jstring compression,
                                                               jlong most) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(const auto reader, OpenRecords(java, stream, name, compression));
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t added,
                          records::InferFrom(*reader, static_cast<std::uint64_t>(most),
                                             Held<SchemaInference>(inference)));
    return static_cast<jlong>(added);
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_NativeRecords_inferred(JNIEnv* java, jclass /*type*/,
                                                                    jlong inference) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto schema, Held<SchemaInference>(inference).Finish());
    return ToJava(java, TypeToJson(records::FieldOf(schema)).dump());
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_deleteInference(JNIEnv* /*java*/,
                                                                        jclass /*type*/,
                                                                        jlong inference) {
  Release<SchemaInference>(inference);
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_check(JNIEnv* java, jclass /*type*/,
                                                              jstring columns) {
  Enter(java, [&] { return SchemaFrom(TextOf(java, columns)).status(); });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_NativeRecords_newReader(JNIEnv* java, jclass /*type*/,
                                                                   jobject stream, jstring name,
                                                                   jstring compression,
                                                                   jstring columns) {
  return Enter(java, [&]() -> Result<jlong> {
    Reader reader;
    TFOS_ASSIGN_OR_RETURN(reader.records, OpenRecords(java, stream, name, compression));
    TFOS_ASSIGN_OR_RETURN(auto schema, SchemaFrom(TextOf(java, columns)));
    TFOS_ASSIGN_OR_RETURN(reader.decoder,
                          ExampleDecoder::Create(std::move(schema), RecordType::kExample));
    return Hold(std::move(reader));
  });
}

JNIEXPORT jlongArray JNICALL Java_tfos_internal_NativeRecords_next(JNIEnv* java, jclass /*type*/,
                                                                   jlong reader) {
  return Enter(java, [&]() -> Result<jlongArray> {
    TFOS_ASSIGN_OR_RETURN(arrow::Field columns, Next(Held<Reader>(reader)));
    return GiveColumns(java, std::move(columns));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_deleteReader(JNIEnv* /*java*/,
                                                                     jclass /*type*/,
                                                                     jlong reader) {
  Release<Reader>(reader);
}

JNIEXPORT jlong JNICALL Java_tfos_internal_NativeRecords_newWriter(JNIEnv* java, jclass /*type*/,
                                                                   jobject stream, jstring name,
                                                                   jstring compression,
                                                                   jstring columns) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionFrom(TextOf(java, compression)));
    TFOS_ASSIGN_OR_RETURN(auto file, OpenSink(java, stream, TextOf(java, name)));
    TFOS_ASSIGN_OR_RETURN(auto sink, records::Compress(std::move(file), kind));
    return Hold(Writer{.records = std::make_unique<records::RecordWriter>(std::move(sink)),
                       .columns = TypeFromJson(nlohmann::json::parse(TextOf(java, columns)))});
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_write(JNIEnv* java, jclass /*type*/,
                                                              jlong writer, jlongArray columns) {
  Enter(java, [&] { return Write(Held<Writer>(writer), NumbersFrom(java, columns)); });
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_finish(JNIEnv* java, jclass /*type*/,
                                                               jlong writer) {
  Enter(java, [&] { return Held<Writer>(writer).records->Close(); });
}

JNIEXPORT void JNICALL Java_tfos_internal_NativeRecords_deleteWriter(JNIEnv* /*java*/,
                                                                     jclass /*type*/,
                                                                     jlong writer) {
  Release<Writer>(writer);
}

}  // extern "C"
