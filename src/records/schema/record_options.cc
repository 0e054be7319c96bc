#include "records/schema/record_options.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/format.h"
#include "base/text/query.h"

namespace tfos::records {
namespace {

constexpr std::array kRecordTypes = {RecordType::kExample, RecordType::kSequenceExample,
                                     RecordType::kByteArray};

constexpr int kHighestLevel = 9;

/// ASCII only: a name with other letters is none of ours.
std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return lower;
}

}  // namespace

Result<RecordType> RecordTypeNamed(std::string_view name) {
  for (const RecordType type : kRecordTypes) {
    if (Lower(name) == Lower(RecordTypeName(type))) return type;
  }
  return Status(
      ErrorKind::kBadInput,
      fmt::format("recordType '{}' is none of Example, SequenceExample, ByteArray", name));
}

std::string_view RecordTypeName(RecordType type) {
  switch (type) {
    case RecordType::kExample:
      return "Example";
    case RecordType::kSequenceExample:
      return "SequenceExample";
    case RecordType::kByteArray:
      return "ByteArray";
  }
  return "";
}

Result<std::string> ModeNamed(std::string_view option) {
  const std::string name = Lower(option);
  if (name == "failfast" || name == "dropmalformed" || name == "permissive") return name;
  return Status(ErrorKind::kBadInput,
                fmt::format("mode '{}' is none of failfast, dropmalformed, permissive", option));
}

Result<bool> FlagOf(std::string_view name, std::string_view value) {
  const std::string flag = Lower(value);
  if (flag == "true" || flag == "false") return flag == "true";
  return Status(ErrorKind::kBadInput,
                fmt::format("{}='{}' is neither true nor false", name, value));
}

Result<std::int64_t> CountOf(std::string_view name, std::string_view value) {
  std::int64_t count = 0;
  if (ReadNumber(value, std::int64_t{1}, std::numeric_limits<std::int64_t>::max(), count)) {
    return count;
  }
  return Status(ErrorKind::kBadInput, fmt::format("{}='{}' is not a positive number", name, value));
}

Result<int> CompressionLevelOf(std::string_view value) {
  int level = 0;
  // -0 would be a number, too.
  if (ReadNumber(value, 0, kHighestLevel, level) && !value.starts_with('-')) return level;
  return Status(ErrorKind::kBadInput,
                fmt::format("compressionLevel='{}' is none of 0 to {}", value, kHighestLevel));
}

Status CheckIndex(bool index, Compression compression) {
  if (!index || compression == Compression::kNone) return {};
  return {ErrorKind::kBadInput,
          fmt::format("index goes with uncompressed files only, and these are {}",
                      CompressionName(compression))};
}

Result<Compression> CompressionNamed(std::string_view option) {
  const std::string name = Lower(option);
  if (name.empty() || name == "none" || name == "uncompressed") return Compression::kNone;
  if (name == "gzip") return Compression::kGzip;
  if (name == "zlib") return Compression::kZlib;
  return Status(ErrorKind::kBadInput,
                fmt::format("compression '{}' is none of none, gzip, zlib", option));
}

Compression CompressionOfPath(std::string_view path) {
  const std::string name = Lower(path.substr(path.rfind('/') + 1));
  if (name.ends_with(".gz") || name.ends_with(".gzip")) return Compression::kGzip;
  if (name.ends_with(".zlib") || name.ends_with(".deflate")) return Compression::kZlib;
  return Compression::kNone;
}

std::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "";
    case Compression::kGzip:
      return "GZIP";
    case Compression::kZlib:
      return "ZLIB";
  }
  return "";
}

std::string_view SuffixOf(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "";
    case Compression::kGzip:
      return ".gz";
    case Compression::kZlib:
      return ".zlib";
  }
  return "";
}

}  // namespace tfos::records
