// The TFRecord reader on arbitrary bytes, also compressed ones: it refuses them, or what it hands
// out is there; and a file written of it is read alike.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "records/files/record_index.h"
#include "records/framing/compression.h"
#include "records/framing/record_reader.h"
#include "records/framing/record_writer.h"

namespace {

using namespace tfos::records;

// Compressed bytes may stand for a thousand times as many.
constexpr std::size_t kMostBytes = std::size_t{1} << 22;

/// Hands over its bytes in small pieces and keeps none of them, as a file does, so that the reader
/// must use its own buffer.
class PiecewiseSource : public MemorySource {
 public:
  explicit PiecewiseSource(std::span<const std::byte> bytes) : MemorySource("fuzz", bytes) {}

  tfos::Result<std::size_t> Read(std::span<std::byte> room) override {
    constexpr std::size_t kLongestPiece = 37;
    const std::size_t piece = pieces_++ % kLongestPiece + 1;
    return MemorySource::Read(room.first(std::min(room.size(), piece)));
  }
  std::span<const std::byte> TakeRest() override { return {}; }

 private:
  std::size_t pieces_ = 0;
};

std::vector<std::string> ReadAll(std::unique_ptr<ByteSource> file, Compression compression,
                                 Validation validation, std::size_t block_bytes) {
  auto source = Decompress(std::move(file), compression);
  if (!source.ok()) __builtin_trap();
  RecordReader reader(
      std::move(*source),
      {.validation = validation, .max_record_bytes = kMostBytes, .block_bytes = block_bytes});
  std::vector<std::string> records;
  std::size_t bytes = 0;
  while (bytes < kMostBytes && records.size() < kMostBytes / 64) {
    const std::uint64_t before = reader.offset();
    const auto record = reader.Next();
    if (!record.ok() && reader.lost()) break;
    if (record.ok() && !*record) break;
    if (reader.offset() <= before) __builtin_trap();
    if (!record.ok()) continue;
    const auto data = (*record)->data;
    bytes += data.size();
    records.emplace_back(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const auto compression = static_cast<Compression>(data[0] % 3);
  const auto validation = static_cast<Validation>(data[0] / 3 % 3);
  const auto whole = [](std::span<const std::byte> of) {
    return std::make_unique<MemorySource>("fuzz", of);
  };
  const auto records = ReadAll(whole(bytes), compression, validation, 64);
  for (const std::size_t block_bytes : {1, 64, 4'096}) {
    if (records !=
        ReadAll(std::make_unique<PiecewiseSource>(bytes), compression, validation, block_bytes)) {
      __builtin_trap();
    }
  }
  std::string file;
  RecordWriter writer(std::make_unique<MemorySink>("fuzz", file));
  for (const std::string& record : records) {
    if (!writer.Write(std::as_bytes(std::span(record))).ok()) __builtin_trap();
  }
  if (!writer.Close().ok()) __builtin_trap();
  if (ReadAll(whole(std::as_bytes(std::span(file))), Compression::kNone, Validation::kFull, 100) !=
      records) {
    __builtin_trap();
  }
  return 0;
}
