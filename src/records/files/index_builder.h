#ifndef TFOS_RECORDS_FILES_INDEX_BUILDER_H_
#define TFOS_RECORDS_FILES_INDEX_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "records/files/record_index.h"
#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::records {

/// Makes the index of an uncompressed file while it is written: the bytes pass through it.
///
/// Owner and lifetime: owns the sink that they go to. Threads: one at a time. Errors: the sink's.
class IndexBuilder : public ByteSink {
 public:
  explicit IndexBuilder(std::unique_ptr<ByteSink> to,
                        std::uint64_t interval_bytes = kDefaultIndexInterval,
                        std::size_t most_entries = kMostIndexEntries)
      : to_(std::move(to)), interval_(interval_bytes), most_entries_(most_entries) {}

  /// A record that will begin there, behind all that were told before.
  void AddRecord(std::uint64_t offset, std::uint64_t number);

  Status Write(std::span<const std::byte> bytes) override;
  Status Close() override { return to_->Close(); }
  const std::string& name() const override { return to_->name(); }

  /// The index, once all of the file was written.
  RecordIndex Finish(std::uint64_t records);

 private:
  const std::unique_ptr<ByteSink> to_;
  std::uint64_t interval_;
  const std::size_t most_entries_;
  RecordIndex index_;
  std::uint64_t next_ = 0;  ///< The first record from there on gets an entry.
  std::string head_;
  std::string tail_;  ///< Up to kFingerprintBytes, the last ones.
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_INDEX_BUILDER_H_
