#include "records/files/example_reader.h"

#include <utility>

#include "base/format.h"
#include "records/schema/record_options.h"

namespace tfos::records {

Result<BadRecords> BadRecordsFrom(std::string_view name) {
  TFOS_ASSIGN_OR_RETURN(const std::string mode, ModeNamed(name));
  if (mode == "failfast") return BadRecords::kFailFast;
  return mode == "permissive" ? BadRecords::kPermissive : BadRecords::kDropMalformed;
}

ExampleReader::ExampleReader(std::unique_ptr<RecordReader> records,
                             std::unique_ptr<ExampleDecoder> decoder, ExampleReaderOptions options)
    : records_(std::move(records)), decoder_(std::move(decoder)), options_(options) {}

Result<bool> ExampleReader::Next(ArrowSchema& schema, ArrowArray& array) {
  if (const Result<bool> full = Fill(); !full.ok()) return full.status();
  if (decoder_->rows() == 0) return false;
  decoder_->Take(schema, array);
  return true;
}

Result<bool> ExampleReader::Fill() {
  TFOS_RETURN_IF_ERROR(failed_);
  if (decoder_->rows() == 0) {
    bad_.clear();
    bad_bytes_ = 0;
  }
  while (decoder_->rows() < options_.batch_rows &&
         decoder_->bytes() + bad_bytes_ < options_.batch_bytes) {
    if (ended_) return false;
    const Result<bool> more = Step();
    if (!more.ok()) {
      failed_ = more.status();
      return failed_;
    }
    ended_ = !*more;
  }
  return true;
}

Result<bool> ExampleReader::Step() {
  const Result<std::optional<Record>> read = records_->Next();
  if (!read.ok()) {
    // What the operating system says is about the place, not about the file's content.
    if (read.status().kind() != ErrorKind::kBadInput || read.status().code()) return read.status();
    if (!records_->lost()) {
      TFOS_RETURN_IF_ERROR(HandleBad(read.status(), records_->damaged()));
      return true;
    }
    if (options_.bad_records == BadRecords::kFailFast) return read.status();
    counts_.lost = true;
    if (counts_.first_problem.empty()) counts_.first_problem = read.status().ToString();
    return false;
  }
  if (!*read) return false;
  const Record& record = **read;
  const Status added = decoder_->Add(record.data);
  if (added.ok()) {
    ++counts_.records;
    return true;
  }
  const Status problem = added.Annotate(fmt::format(
      "{}: record {} at offset {}", records_->source().name(), record.number, record.offset));
  if (problem.kind() != ErrorKind::kBadInput) return problem;
  TFOS_RETURN_IF_ERROR(HandleBad(problem, record.data));
  return true;
}

Status ExampleReader::HandleBad(const Status& problem, std::span<const std::byte> data) {
  if (options_.bad_records == BadRecords::kFailFast) return problem;
  ++counts_.bad_records;
  if (counts_.first_problem.empty()) counts_.first_problem = problem.ToString();
  if (options_.bad_records == BadRecords::kDropMalformed) return Status::Ok();
  const Status added = decoder_->AddNulls();
  if (!added.ok()) return problem.Annotate(added.ToString());
  if (options_.keep_bad) {
    bad_.push_back({.row = decoder_->rows() - 1,
                    .data = {reinterpret_cast<const char*>(data.data()), data.size()}});
    bad_bytes_ += data.size();
  }
  return Status::Ok();
}

}  // namespace tfos::records
