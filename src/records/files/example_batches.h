#ifndef TFOS_RECORDS_FILES_EXAMPLE_BATCHES_H_
#define TFOS_RECORDS_FILES_EXAMPLE_BATCHES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrow/export.h"
#include "records/files/example_reader.h"
#include "records/files/file_store.h"
#include "records/framing/compression.h"
#include "records/schema/example_schema.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// Which files are read, and into what batches.
struct ExampleBatchesOptions {
  struct File {
    std::string path;
    Compression compression = Compression::kNone;
  };
  std::vector<File> files;
  ExampleSchema schema;
  RecordType type = RecordType::kExample;
  BadRecords bad_records = BadRecords::kFailFast;
  std::size_t rows = 1;         ///< Of each batch but the last, at least 1.
  bool drop_remainder = false;  ///< Leave out the last batch if it is not full.
  /// Called with the path of each file that was read to its end.
  std::function<void(const std::string& path, const ReadCounts& counts)> on_file_end;
};

/// The tf.Examples of several files, one behind the other, in batches of so many rows that cross
/// from file to file. No row is copied to get there.
///
/// Owner and lifetime: a value that owns what it has open; borrows `files`. Threads: one at a time.
/// Errors: as ExampleReader; a failure comes again when asked again.
class ExampleBatches {
 public:
  explicit ExampleBatches(ExampleBatchesOptions options, const FileStore& files = LocalFiles())
      : options_(std::move(options)), files_(&files) {}

  /// The next rows, a struct with a child for each column; none at the end.
  Result<std::optional<arrow::Field>> Next();

 private:
  Status OpenNext();

  const ExampleBatchesOptions options_;
  const FileStore* files_;
  std::size_t opened_ = 0;                   ///< Files so far.
  std::unique_ptr<ExampleReader> reader_;    ///< Of the file at hand; has the decoder.
  std::unique_ptr<ExampleDecoder> decoder_;  ///< Between two files.
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_EXAMPLE_BATCHES_H_
