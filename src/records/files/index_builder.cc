#include "records/files/index_builder.h"

#include <algorithm>
#include <string_view>

namespace tfos::records {

void IndexBuilder::AddRecord(std::uint64_t offset, std::uint64_t number) {
  if (offset < next_) return;
  auto& entries = index_.entries;
  if (entries.size() == most_entries_) {
    // Every second one stays: the file is longer than anybody guessed.
    for (std::size_t i = 0; 2 * i < entries.size(); ++i) entries[i] = entries[2 * i];
    entries.resize((entries.size() + 1) / 2);
    interval_ *= 2;
  }
  entries.push_back({offset, number});
  next_ = offset / interval_ * interval_ + interval_;
}

Status IndexBuilder::Write(std::span<const std::byte> bytes) {
  TFOS_RETURN_IF_ERROR(to_->Write(bytes));
  index_.file_bytes += bytes.size();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  head_ += text.substr(0, kFingerprintBytes - head_.size());
  const std::size_t kept =
      std::min(tail_.size(), kFingerprintBytes - std::min(text.size(), kFingerprintBytes));
  tail_.erase(0, tail_.size() - kept);
  tail_ += text.substr(text.size() - std::min(text.size(), kFingerprintBytes));
  return Status::Ok();
}

RecordIndex IndexBuilder::Finish(std::uint64_t records) {
  index_.records = records;
  index_.fingerprint =
      FingerprintOf(std::as_bytes(std::span(head_)), std::as_bytes(std::span(tail_)));
  return std::exchange(index_, {});
}

}  // namespace tfos::records
