#ifndef TFOS_RECORDS_FILES_RECORD_FILES_H_
#define TFOS_RECORDS_FILES_RECORD_FILES_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "records/files/file_store.h"
#include "records/framing/compression.h"
#include "records/framing/record_reader.h"
#include "records/framing/record_writer.h"
#include "records/schema/schema_inference.h"
#include "tfos/status.h"

namespace tfos::records {

/// How a file is read.
struct RecordFileOptions {
  Validation validation = Validation::kFull;
  /// Longer records are refused. Bytes, at most kLongestRecord. Without it 1 GiB, and 256 MiB in a
  /// compressed file: there a thousandth of a record's bytes may be enough to make a reader get
  /// memory for all of them.
  std::optional<std::uint64_t> max_record_bytes = {};
  /// What part of it, as RecordReaderOptions has it.
  std::uint64_t begin_offset = 0;
  std::uint64_t end_offset = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t first_record = 0;
};

/// A reader of a file, or of the part that `options` say. kBadInput for a part of a
/// compressed file, which can only be read as a whole, and for a limit over kLongestRecord.
Result<std::unique_ptr<RecordReader>> OpenRecordFile(const std::string& path,
                                                     Compression compression,
                                                     RecordFileOptions options = {},
                                                     const FileStore& files = LocalFiles());
/// The same of a file that is open, at the begin of its part.
Result<std::unique_ptr<RecordReader>> OpenRecordFile(std::unique_ptr<ByteSource> file,
                                                     Compression compression,
                                                     RecordFileOptions options = {});

/// A writer of a file, which is emptied first.
Result<std::unique_ptr<RecordWriter>> CreateRecordFile(
    const std::string& path, Compression compression, int level = kDefaultCompressionLevel,
    const FileStore& files = LocalFiles(), Directories directories = Directories::kAsUsual);

/// What is in a file.
struct Survey {
  std::uint64_t records = 0;       ///< That are sound, as far as was checked.
  std::uint64_t record_bytes = 0;  ///< Their data alone.
  std::uint64_t longest_bytes = 0;
  std::uint64_t bad_records = 0;
  std::uint64_t end_offset = 0;  ///< Where reading ended, in the uncompressed file.
  bool lost = false;             ///< There is more that could not be read.
  std::string first_problem;     ///< Empty: none.
};

/// Reads to the end, over what is damaged. Fails only for what the operating system says.
Result<Survey> SurveyRecords(RecordReader& reader);

/// Adds up to `most` records to `inference`: how many there were. Fails for damaged ones.
Result<std::uint64_t> InferFrom(RecordReader& reader, std::uint64_t most,
                                SchemaInference& inference);
/// The same, passing over records that are damaged or are none, but not over very many. Fails only
/// for what the place says.
Result<std::uint64_t> InferFromSound(RecordReader& reader, std::uint64_t most,
                                     SchemaInference& inference);

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_RECORD_FILES_H_
