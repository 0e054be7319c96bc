#ifndef TFOS_RECORDS_FRAMING_RECORD_WRITER_H_
#define TFOS_RECORDS_FRAMING_RECORD_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::records {

/// Writes a TFRecord file (docs/formats/tfrecord.md).
///
/// Owner and lifetime: owns its sink. Without `Close` the file is incomplete. Threads: one at a
/// time. Errors: what the sink says; then all further calls fail alike.
class RecordWriter {
 public:
  explicit RecordWriter(std::unique_ptr<ByteSink> sink);

  Status Write(std::span<const std::byte> record);

  /// Hands on what is left and closes the sink. Further calls do nothing.
  Status Close();

  std::uint64_t records() const { return records_; }
  /// The offset of the next record, in the uncompressed file.
  std::uint64_t offset() const { return offset_; }

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

  void Append(std::span<const std::byte> bytes);
  Status Flush();

  std::unique_ptr<ByteSink> sink_;
  std::unique_ptr<std::byte[]> block_;
  std::size_t used_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t offset_ = 0;
  Status failed_;
  bool closed_ = false;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_RECORD_WRITER_H_
