#include "records/framing/record_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/memory/crc32c.h"
#include "base/text/choice.h"
#include "records/framing/framing.h"

namespace tfos::records {

Result<Validation> ValidationFrom(std::string_view name) {
  constexpr Choice<Validation> kValidations[] = {
      {"full", Validation::kFull}, {"lengths", Validation::kLengths}, {"none", Validation::kNone}};
  return ChoiceNamed("validation", kValidations, name, LetterCase::kIgnored);
}

/// What was read of the source and not yet handed out: the source's own memory where it has any,
/// else a buffer. That grows with what is really there, so that a wrong length alone costs no
/// memory.
class RecordReader::Block {
 public:
  Block(std::size_t bytes, ByteSource& source)
      : source_(source),
        block_bytes_(std::max(bytes, kRecordHeaderBytes)),
        rest_(source.TakeRest()) {}

  std::span<const std::byte> bytes() const { return rest_; }
  void Drop(std::size_t count) { rest_ = rest_.subspan(count); }

  /// Reads until there are `wanted` bytes, or the source has no more.
  Status Await(std::size_t wanted) {
    while (rest_.size() < wanted) {
      const std::span<std::byte> room = MakeRoom(wanted);
      TFOS_ASSIGN_OR_RETURN(const std::size_t read, source_.Read(room));
      if (read == 0) return Status::Ok();
      rest_ = {room.data() - rest_.size(), rest_.size() + read};
    }
    return Status::Ok();
  }

 private:
  /// Moves what is left to the front of the buffer, and gives the room behind it.
  std::span<std::byte> MakeRoom(std::size_t wanted) {
    if (rest_.size() >= capacity_) {
      // At first, or full of one record that is longer still.
      capacity_ = std::max(block_bytes_, std::min(wanted, 2 * rest_.size()));
      auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
      if (!rest_.empty()) std::memcpy(larger.get(), rest_.data(), rest_.size());
      buffer_ = std::move(larger);
    } else if (!rest_.empty()) {
      std::memmove(buffer_.get(), rest_.data(), rest_.size());
    }
    rest_ = {buffer_.get(), rest_.size()};
    return {buffer_.get() + rest_.size(), capacity_ - rest_.size()};
  }

  ByteSource& source_;
  const std::size_t block_bytes_;
  std::span<const std::byte> rest_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
};

RecordReader::RecordReader(std::unique_ptr<ByteSource> source, RecordReaderOptions options)
    : source_(std::move(source)),
      options_(options),
      block_(std::make_unique<Block>(options.block_bytes, *source_)),
      offset_(options.begin_offset),
      number_(options.first_record) {}

RecordReader::~RecordReader() = default;

Result<std::optional<Record>> RecordReader::Next() {
  damaged_ = {};
  if (lost()) return lost_;
  if (offset_ >= options_.end_offset) return std::optional<Record>();

  if (Status read = block_->Await(kRecordHeaderBytes); !read.ok()) return Lose(read);
  const std::span<const std::byte> header = block_->bytes();
  if (header.empty()) return std::optional<Record>();
  if (header.size() < kRecordHeaderBytes) {
    return Lose(Bad(fmt::format("the file ends {} bytes into its length of {}{}", header.size(),
                                kRecordHeaderBytes, CompressionHint())));
  }
  const auto length = Load<std::uint64_t>(header.data());
  if (options_.validation != Validation::kNone &&
      MaskedCrc32c(header.first(kLengthBytes)) !=
          Load<std::uint32_t>(header.data() + kLengthBytes)) {
    return Lose(
        Bad(fmt::format("the CRC of its length is wrong, so the rest of the file can't be "
                        "read; the file is damaged or holds no TFRecords{}",
                        CompressionHint())));
  }
  // Whatever the caller allows, the frame's own size must not wrap.
  const std::uint64_t limit = std::min(options_.max_record_bytes, kLongestRecord);
  if (length > limit) {
    return Lose(
        Bad(fmt::format("its length of {} bytes is over the limit of {}; raise the limit "
                        "if such records are meant to be{}",
                        length, limit, CompressionHint())));
  }

  const std::size_t whole = kRecordHeaderBytes + length + kRecordFooterBytes;
  if (Status read = block_->Await(whole); !read.ok()) return Lose(read);
  const std::span<const std::byte> bytes = block_->bytes();
  if (bytes.size() < whole) {
    return Lose(Bad(fmt::format("the file ends after {} of its {} bytes; it was cut off",
                                bytes.size(), whole)));
  }
  const Record record = {
      .data = bytes.subspan(kRecordHeaderBytes, length), .offset = offset_, .number = number_};
  Status damaged;
  if (options_.validation == Validation::kFull &&
      MaskedCrc32c(record.data) != Load<std::uint32_t>(record.data.data() + record.data.size())) {
    damaged = Bad("the CRC of its data is wrong; the file is damaged");
  }
  block_->Drop(whole);
  offset_ += whole;
  ++number_;
  if (!damaged.ok()) {
    damaged_ = record.data;
    return damaged;
  }
  return std::optional<Record>(record);
}

Status RecordReader::Bad(std::string_view what) const {
  return {ErrorKind::kBadInput,
          fmt::format("{}: record {} at offset {}: {}", source_->name(), number_, offset_, what)};
}

Status RecordReader::Lose(Status status) {
  lost_ = std::move(status);
  return lost_;
}

std::string_view RecordReader::CompressionHint() const {
  const std::span<const std::byte> bytes = block_->bytes();
  if (offset_ != 0 || bytes.size() < 2) return "";
  const auto first = std::to_integer<unsigned>(bytes[0]);
  const auto second = std::to_integer<unsigned>(bytes[1]);
  if (first == 0x1F && second == 0x8B) {
    return "; it begins like GZIP: read it with compression 'gzip'";
  }
  constexpr unsigned kDeflateWith32KiB = 0x78;
  if (first == kDeflateWith32KiB && (first * 256 + second) % 31 == 0) {
    return "; it begins like ZLIB: read it with compression 'zlib'";
  }
  return "";
}

}  // namespace tfos::records
