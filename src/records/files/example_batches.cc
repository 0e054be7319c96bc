#include "records/files/example_batches.h"

#include <limits>
#include <utility>

#include "records/files/record_files.h"

namespace tfos::records {

Result<std::optional<arrow::Field>> ExampleBatches::Next() {
  while (reader_ != nullptr || opened_ < options_.files.size()) {
    if (reader_ == nullptr) TFOS_RETURN_IF_ERROR(OpenNext());
    TFOS_ASSIGN_OR_RETURN(const bool full, reader_->Fill());
    if (full) return std::optional(reader_->decoder().Take());
    if (options_.on_file_end) {
      options_.on_file_end(options_.files[opened_ - 1].path, reader_->counts());
    }
    decoder_ = reader_->TakeDecoder();
    reader_.reset();
  }
  if (decoder_ == nullptr || decoder_->rows() == 0 || options_.drop_remainder) {
    return std::optional<arrow::Field>();
  }
  return std::optional(decoder_->Take());
}

Status ExampleBatches::OpenNext() {
  if (decoder_ == nullptr) {
    TFOS_ASSIGN_OR_RETURN(decoder_, ExampleDecoder::Create(options_.schema, options_.type));
  }
  const ExampleBatchesOptions::File& file = options_.files[opened_];
  TFOS_ASSIGN_OR_RETURN(auto records, OpenRecordFile(file.path, file.compression, {}, *files_));
  ++opened_;
  reader_ = std::make_unique<ExampleReader>(
      std::move(records), std::move(decoder_),
      ExampleReaderOptions{.bad_records = options_.bad_records,
                           .batch_rows = options_.rows,
                           .batch_bytes = std::numeric_limits<std::uint64_t>::max()});
  return Status::Ok();
}

}  // namespace tfos::records
