#ifndef TFOS_RECORDS_FRAMING_COMPRESSION_H_
#define TFOS_RECORDS_FRAMING_COMPRESSION_H_

#include <memory>
#include <string_view>

#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::records {

/// How a whole file is compressed.
enum class Compression { kNone, kGzip, kZlib };

/// By the names that TensorFlow gives them: "", "GZIP", "ZLIB". kBadInput for another name.
Result<Compression> CompressionFrom(std::string_view name);

/// A level of zlib that leaves the choice to it (6).
inline constexpr int kDefaultCompressionLevel = -1;

/// What `source` holds, uncompressed; `source` itself for kNone.
/// Errors of reading: kBadInput for bytes that are not compressed like this, or cut off.
Result<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> source,
                                               Compression compression);

/// Compresses on the way to `sink`; `sink` itself for kNone. `level`: 0 (none) to 9 (best).
/// kBadInput for another level.
Result<std::unique_ptr<ByteSink>> Compress(std::unique_ptr<ByteSink> sink, Compression compression,
                                           int level = kDefaultCompressionLevel);

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_COMPRESSION_H_
