#include "records/files/record_files.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::records {
namespace {

/// No record may be sound in a file that was taken for what it is not.
constexpr std::uint64_t kMostUnsound = 10'000;

constexpr std::uint64_t kLimitWhenCompressed = std::uint64_t{256} << 20;

/// What messages about a schema call a record.
std::string OriginOf(const RecordReader& reader, const Record& record) {
  return fmt::format("record {} of {}", record.number, reader.source().name());
}

}  // namespace

Result<std::unique_ptr<RecordReader>> OpenRecordFile(const std::string& path,
                                                     Compression compression,
                                                     RecordFileOptions options,
                                                     const FileStore& files) {
  if (compression != Compression::kNone && options.begin_offset != 0) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} is compressed, so it can't be read from offset {}; read it from "
                              "its begin",
                              path, options.begin_offset));
  }
  TFOS_ASSIGN_OR_RETURN(auto file, files.Open(path, options.begin_offset));
  return OpenRecordFile(std::move(file), compression, options);
}

Result<std::unique_ptr<RecordReader>> OpenRecordFile(std::unique_ptr<ByteSource> file,
                                                     Compression compression,
                                                     RecordFileOptions options) {
  const std::uint64_t limit = options.max_record_bytes.value_or(
      compression == Compression::kNone ? RecordReaderOptions().max_record_bytes
                                        : kLimitWhenCompressed);
  if (limit > kLongestRecord) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{}: max_record_bytes is {}; it can be at most {}", file->name(),
                              limit, kLongestRecord));
  }
  TFOS_ASSIGN_OR_RETURN(auto source, Decompress(std::move(file), compression));
  return std::make_unique<RecordReader>(std::move(source),
                                        RecordReaderOptions{.validation = options.validation,
                                                            .max_record_bytes = limit,
                                                            .begin_offset = options.begin_offset,
                                                            .end_offset = options.end_offset,
                                                            .first_record = options.first_record});
}

Result<std::unique_ptr<RecordWriter>> CreateRecordFile(const std::string& path,
                                                       Compression compression, int level,
                                                       const FileStore& files,
                                                       Directories directories) {
  TFOS_ASSIGN_OR_RETURN(auto file, files.Create(path, directories));
  TFOS_ASSIGN_OR_RETURN(auto sink, Compress(std::move(file), compression, level));
  return std::make_unique<RecordWriter>(std::move(sink));
}

Result<Survey> SurveyRecords(RecordReader& reader) {
  Survey survey;
  while (true) {
    const auto record = reader.Next();
    survey.end_offset = reader.offset();
    if (!record.ok()) {
      if (record.status().code()) return record.status();
      if (survey.first_problem.empty()) survey.first_problem = record.status().ToString();
      survey.lost = reader.lost();
      if (survey.lost) return survey;
      ++survey.bad_records;
    } else if (!*record) {
      return survey;
    } else {
      const std::uint64_t bytes = (*record)->data.size();
      ++survey.records;
      survey.record_bytes += bytes;
      survey.longest_bytes = std::max(survey.longest_bytes, bytes);
    }
  }
}

Result<std::uint64_t> InferFrom(RecordReader& reader, std::uint64_t most,
                                SchemaInference& inference) {
  std::uint64_t added = 0;
  for (; added < most; ++added) {
    TFOS_ASSIGN_OR_RETURN(const auto record, reader.Next());
    if (!record) break;
    TFOS_RETURN_IF_ERROR(inference.Add(record->data, OriginOf(reader, *record)));
  }
  return added;
}

Result<std::uint64_t> InferFromSound(RecordReader& reader, std::uint64_t most,
                                     SchemaInference& inference) {
  std::uint64_t added = 0;
  std::uint64_t unsound = 0;
  while (added < most && unsound < kMostUnsound) {
    const auto record = reader.Next();
    if (!record.ok()) {
      if (record.status().kind() != ErrorKind::kBadInput || record.status().code()) {
        return record.status();
      }
      if (reader.lost()) break;
      ++unsound;
      continue;
    }
    if (!*record) break;
    ++(inference.Add((*record)->data, OriginOf(reader, **record)).ok() ? added : unsound);
  }
  return added;
}

}  // namespace tfos::records
