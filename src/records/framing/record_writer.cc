#include "records/framing/record_writer.h"

#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/memory/crc32c.h"
#include "records/framing/framing.h"

namespace tfos::records {

RecordWriter::RecordWriter(std::unique_ptr<ByteSink> sink)
    : sink_(std::move(sink)), block_(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes)) {}

Status RecordWriter::Write(std::span<const std::byte> record) {
  if (closed_) {
    return {ErrorKind::kBug, fmt::format("{}: a record after the end", sink_->name())};
  }
  TFOS_RETURN_IF_ERROR(failed_);
  std::byte header[kRecordHeaderBytes];
  Store<std::uint64_t>(record.size(), header);
  Store(MaskedCrc32c(std::span(header).first(kLengthBytes)), header + kLengthBytes);
  std::byte footer[kRecordFooterBytes];
  Store(MaskedCrc32c(record), footer);

  const std::size_t whole = sizeof header + record.size() + sizeof footer;
  if (used_ + whole > kBlockBytes) TFOS_RETURN_IF_ERROR(Flush());
  Append(header);
  if (whole > kBlockBytes) {
    // Too long to be gathered: straight to the sink.
    TFOS_RETURN_IF_ERROR(Flush());
    failed_ = sink_->Write(record);
    TFOS_RETURN_IF_ERROR(failed_);
  } else {
    Append(record);
  }
  Append(footer);
  offset_ += whole;
  ++records_;
  return Status::Ok();
}

Status RecordWriter::Close() {
  if (std::exchange(closed_, true)) return failed_;
  TFOS_RETURN_IF_ERROR(failed_);
  TFOS_RETURN_IF_ERROR(Flush());
  failed_ = sink_->Close();
  return failed_;
}

void RecordWriter::Append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(block_.get() + used_, bytes.data(), bytes.size());
  used_ += bytes.size();
}

Status RecordWriter::Flush() {
  failed_ = sink_->Write({block_.get(), std::exchange(used_, 0)});
  return failed_;
}

}  // namespace tfos::records
