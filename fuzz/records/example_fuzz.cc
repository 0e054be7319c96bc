// The parser of tf.Example on arbitrary bytes: it refuses them, or gives columns that are written
// as records which are read as the same columns. Schema inference likewise.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "records/example/example_decoder.h"
#include "records/example/example_encoder.h"
#include "records/schema/schema_inference.h"

namespace {

using namespace tfos::records;

/// Columns of every type and shape, called by single letters.
ExampleSchema EveryColumn() {
  ExampleSchema schema;
  char name = 'a';
  for (int type = 0; type <= static_cast<int>(ElementType::kBinary); ++type) {
    for (const ColumnShape shape : {ColumnShape::kSingle, ColumnShape::kFixedList,
                                    ColumnShape::kList, ColumnShape::kListOfLists}) {
      ExampleColumn column{.name = std::string(1, name++)};
      column.type = static_cast<ElementType>(type);
      column.shape = shape;
      column.length = 2;
      schema.columns.push_back(std::move(column));
    }
  }
  return schema;
}

std::vector<std::string> Encoded(ExampleDecoder& decoder) {
  ArrowSchema schema{};
  ArrowArray array{};
  decoder.Take(schema, array);
  auto encoder = ExampleEncoder::Open(schema, array, RecordType::kSequenceExample);
  if (!encoder.ok()) __builtin_trap();
  std::vector<std::string> records;
  for (std::size_t row = 0; row < (*encoder)->rows(); ++row) {
    const auto record = (*encoder)->Encode(row);
    if (!record.ok()) __builtin_trap();
    records.emplace_back(reinterpret_cast<const char*>(record->data()), record->size());
  }
  schema.release(&schema);
  array.release(&array);
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<ExampleDecoder> decoder =
      ExampleDecoder::Create(EveryColumn(), RecordType::kSequenceExample).value();
  const auto record = std::as_bytes(std::span(data, size));
  const bool first = decoder->Add(record).ok();
  if (!decoder->AddNulls().ok() || decoder->Add(record).ok() != first) __builtin_trap();
  const std::vector<std::string> once = Encoded(*decoder);
  if (once.size() != (first ? 3U : 1U)) __builtin_trap();
  for (const std::string& again : once) {
    if (!decoder->Add(std::as_bytes(std::span(again))).ok()) __builtin_trap();
  }
  if (Encoded(*decoder) != once) __builtin_trap();

  for (const RecordType type : {RecordType::kExample, RecordType::kSequenceExample}) {
    SchemaInference inference(type, BytesAs::kStringWhereUtf8);
    if (!inference.Add(record, "record 0").ok()) continue;
    auto schema = inference.Finish();
    if (!schema.ok()) continue;
    auto inferred = ExampleDecoder::Create(std::move(*schema), type);
    if (!inferred.ok()) __builtin_trap();
    static_cast<void>((*inferred)->Add(record).ok());
  }
  return 0;
}
