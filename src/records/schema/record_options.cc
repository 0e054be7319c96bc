#include "records/schema/record_options.h"

#include <limits>

#include "base/format.h"
#include "base/text/choice.h"
#include "base/text/query.h"

namespace tfos::records {
namespace {

constexpr Choice<RecordType> kRecordTypes[] = {{"Example", RecordType::kExample},
                                               {"SequenceExample", RecordType::kSequenceExample},
                                               {"ByteArray", RecordType::kByteArray}};
/// Each stands for itself.
constexpr Choice<std::string_view> kModes[] = {
    {"failfast", "failfast"}, {"dropmalformed", "dropmalformed"}, {"permissive", "permissive"}};
constexpr Choice<Compression> kCompressions[] = {
    {"none", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}};

constexpr int kHighestLevel = 9;

}  // namespace

Result<RecordType> RecordTypeNamed(std::string_view name) {
  return ChoiceNamed("recordType", kRecordTypes, name, LetterCase::kIgnored);
}

std::string_view RecordTypeName(RecordType type) { return ChoiceName(kRecordTypes, type); }

Result<std::string> ModeNamed(std::string_view option) {
  TFOS_ASSIGN_OR_RETURN(const std::string_view mode,
                        ChoiceNamed("mode", kModes, option, LetterCase::kIgnored));
  return std::string(mode);
}

Result<bool> FlagOf(std::string_view name, std::string_view value) {
  const std::string flag = LowerCase(value);
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
  return Status(ErrorKind::kBadInput, fmt::format("compressionLevel must be from 0 to {}, not '{}'",
                                                  kHighestLevel, value));
}

Status CheckIndex(bool index, Compression compression) {
  if (!index || compression == Compression::kNone) return {};
  return {ErrorKind::kBadInput,
          fmt::format("index goes with uncompressed files only, and these are {}",
                      CompressionName(compression))};
}

Result<Compression> CompressionNamed(std::string_view option) {
  if (option.empty() || LowerCase(option) == "uncompressed") return Compression::kNone;
  return ChoiceNamed("compression", kCompressions, option, LetterCase::kIgnored);
}

Compression CompressionOfPath(std::string_view path) {
  const std::string name = LowerCase(path.substr(path.rfind('/') + 1));
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
