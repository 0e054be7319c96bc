#ifndef TFOS_RECORDS_SCHEMA_RECORD_OPTIONS_H_
#define TFOS_RECORDS_SCHEMA_RECORD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "records/framing/compression.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

// The names and values in the options of Spark's format `tfrecord` (docs/tfrecords.md), whether the
// jar or Python reads and writes. Threads: any. Errors: kBadInput, with the name and those that
// there are.

/// "Example", "SequenceExample" or "ByteArray", whatever the case.
Result<RecordType> RecordTypeNamed(std::string_view name);
std::string_view RecordTypeName(RecordType type);

/// How bad records are handled: "failfast", "dropmalformed" or "permissive", whatever the case.
Result<std::string> ModeNamed(std::string_view option);

/// The value of the option `name`: "true" or "false", whatever the case.
Result<bool> FlagOf(std::string_view name, std::string_view value);
/// The value of the option `name`: digits, which make a number from 1 to 2^63 - 1.
Result<std::int64_t> CountOf(std::string_view name, std::string_view value);
/// The value of the option `compressionLevel`: one of zlib's levels, 0 to 9.
Result<int> CompressionLevelOf(std::string_view value);
/// Only files that are not compressed can have an index beside them.
Status CheckIndex(bool index, Compression compression);

/// "none" (also "uncompressed" and ""), "gzip" or "zlib", whatever the case.
Result<Compression> CompressionNamed(std::string_view option);
/// By the end of a file's name: ".gz", ".gzip", ".zlib", ".deflate", else none.
Compression CompressionOfPath(std::string_view path);
/// As CompressionFrom takes it.
std::string_view CompressionName(Compression compression);
/// What the name of a file so compressed ends with.
std::string_view SuffixOf(Compression compression);

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_RECORD_OPTIONS_H_
