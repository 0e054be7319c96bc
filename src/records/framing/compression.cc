#include "records/framing/compression.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text/choice.h"

namespace tfos::records {
namespace {

constexpr Choice<Compression> kCompressions[] = {
    {"", Compression::kNone}, {"GZIP", Compression::kGzip}, {"ZLIB", Compression::kZlib}};

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
// zlib counts in these.
constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();

const char* NameOf(Compression compression) {
  return compression == Compression::kGzip ? "GZIP" : "ZLIB";
}

/// The largest window, which reads every smaller one; 16 more selects GZIP's header.
int WindowBits(Compression compression) {
  return compression == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS;
}

Bytef* BytesOf(const std::byte* bytes) {
  // zlib's structs have no const, but it writes to its output only.
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes));
}

const char* MessageOf(const z_stream& stream, int result) {
  return stream.msg != nullptr ? stream.msg : zError(result);
}

class InflateSource : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> source, Compression compression)
      : source_(std::move(source)), compression_(compression), block_(kBlockBytes) {}
  ~InflateSource() override { inflateEnd(&stream_); }
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;

  bool Begin() { return inflateInit2(&stream_, WindowBits(compression_)) == Z_OK; }

  /// What is ahead of damage is handed out before the damage is reported, however the source cuts
  /// its bytes.
  Result<std::size_t> Read(std::span<std::byte> room) override {
    if (!damage_.ok()) return damage_;
    const std::size_t wanted = std::min(room.size(), kMostAtOnce);
    stream_.next_out = BytesOf(room.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out == wanted) {
      if (!inside_) {
        TFOS_ASSIGN_OR_RETURN(const bool more, Refill());
        if (!more) return std::size_t{0};
        TFOS_RETURN_IF_ERROR(BeginMember());
        inside_ = true;
      }
      // Before there is input: zlib may still hold what did not fit into the last room.
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        inside_ = false;
        ++members_;
      } else if (result == Z_BUF_ERROR) {
        TFOS_ASSIGN_OR_RETURN(const bool more, Refill());
        if (!more) return Bad("the file ends in the middle of it");
      } else if (result != Z_OK) {
        damage_ = Bad(MessageOf(stream_, result));
        if (stream_.avail_out == wanted) return damage_;
        break;
      }
    }
    return wanted - stream_.avail_out;
  }

  const std::string& name() const override { return source_->name(); }

 private:
  /// Reads input where zlib has none: whether there is any then.
  Result<bool> Refill() {
    if (stream_.avail_in > 0) return true;
    TFOS_ASSIGN_OR_RETURN(const std::size_t read, source_->Read(block_));
    stream_.next_in = BytesOf(block_.data());
    stream_.avail_in = static_cast<uInt>(read);
    return read > 0;
  }

  Status BeginMember() {
    if (members_ == 0) return Status::Ok();
    if (compression_ != Compression::kGzip) return Bad("there is something behind its end");
    return inflateReset(&stream_) == Z_OK
               ? Status::Ok()
               : Status(ErrorKind::kBug, "zlib's state cannot be set back");
  }

  Status Bad(std::string_view what) const {
    const bool began = members_ > 0 || stream_.total_out > 0;
    return Status(ErrorKind::kBadInput,
                  fmt::format("{}: this is not valid {} data: {}{}", name(), NameOf(compression_),
                              what, began ? "" : "; if the file is not compressed, say so"));
  }

  std::unique_ptr<ByteSource> source_;
  const Compression compression_;
  std::vector<std::byte> block_;
  z_stream stream_{};
  bool inside_ = false;  ///< A member has begun and not ended.
  std::uint64_t members_ = 0;
  Status damage_;  ///< What ended the reading.
};

class DeflateSink : public ByteSink {
 public:
  DeflateSink(std::unique_ptr<ByteSink> sink, Compression compression)
      : sink_(std::move(sink)), compression_(compression), block_(kBlockBytes) {}
  ~DeflateSink() override { deflateEnd(&stream_); }
  DeflateSink(const DeflateSink&) = delete;
  DeflateSink& operator=(const DeflateSink&) = delete;

  bool Begin(int level) {
    constexpr int kDefaultMemoryLevel = 8;
    return deflateInit2(&stream_, level, Z_DEFLATED, WindowBits(compression_), kDefaultMemoryLevel,
                        Z_DEFAULT_STRATEGY) == Z_OK;
  }

  Status Write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t some = std::min(bytes.size(), kMostAtOnce);
      stream_.next_in = BytesOf(bytes.data());
      stream_.avail_in = static_cast<uInt>(some);
      TFOS_RETURN_IF_ERROR(Deflate(Z_NO_FLUSH));
      bytes = bytes.subspan(some);
    }
    return Status::Ok();
  }

  Status Close() override {
    if (std::exchange(closed_, true)) return Status::Ok();
    stream_.avail_in = 0;
    TFOS_RETURN_IF_ERROR(Deflate(Z_FINISH));
    return sink_->Close();
  }

  const std::string& name() const override { return sink_->name(); }

 private:
  Status Deflate(int flush) {
    do {
      stream_.next_out = BytesOf(block_.data());
      stream_.avail_out = static_cast<uInt>(block_.size());
      const int result = deflate(&stream_, flush);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return {ErrorKind::kBug,
                fmt::format("{}: compress: {}", name(), MessageOf(stream_, result))};
      }
      TFOS_RETURN_IF_ERROR(
          sink_->Write(std::span(block_).first(block_.size() - stream_.avail_out)));
    } while (stream_.avail_out == 0);
    return Status::Ok();
  }

  std::unique_ptr<ByteSink> sink_;
  const Compression compression_;
  std::vector<std::byte> block_;
  z_stream stream_{};
  bool closed_ = false;
};

Status NoMemory() { return {ErrorKind::kNoResources, "zlib got no memory"}; }

}  // namespace

Result<Compression> CompressionFrom(std::string_view name) {
  return ChoiceNamed("compression", kCompressions, name);
}

Result<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> source,
                                               Compression compression) {
  if (compression == Compression::kNone) return source;
  auto inflating = std::make_unique<InflateSource>(std::move(source), compression);
  if (!inflating->Begin()) return NoMemory();
  return std::unique_ptr<ByteSource>(std::move(inflating));
}

Result<std::unique_ptr<ByteSink>> Compress(std::unique_ptr<ByteSink> sink, Compression compression,
                                           int level) {
  if (compression == Compression::kNone) return sink;
  if (level < kDefaultCompressionLevel || level > Z_BEST_COMPRESSION) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("compression level {} is not between 0 and 9", level));
  }
  auto deflating = std::make_unique<DeflateSink>(std::move(sink), compression);
  if (!deflating->Begin(level)) return NoMemory();
  return std::unique_ptr<ByteSink>(std::move(deflating));
}

}  // namespace tfos::records
