#ifndef TFOS_NET_TLS_RECORD_KEY_H_
#define TFOS_NET_TLS_RECORD_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/crypto/secret.h"
#include "tfos/status.h"

struct evp_cipher_ctx_st;

namespace tfos::net {

/// What a record of TLS 1.3 holds (RFC 8446, 5.1).
enum class RecordType : std::uint8_t { kAlert = 21, kHandshake = 22, kData = 23 };

/// The head of a record on the wire, and the tag behind what is in it.
inline constexpr std::size_t kRecordHeadBytes = 5;
inline constexpr std::size_t kRecordTagBytes = 16;
/// What follows the head: 2^14 bytes, the type, and what the cipher adds.
inline constexpr std::size_t kMostRecordBodyBytes = (std::size_t{1} << 14) + 256;
/// Records take up multiples of this on the wire, by padding: the kernel copies them faster, and
/// a listener learns less about the lengths of messages.
inline constexpr std::size_t kRecordLineBytes = 64;
/// As much as goes into a record of 16 KiB, and a multiple of 64.
inline constexpr std::size_t kMostRecordDataBytes = 16'320;

/// The bytes of a record's head that follow it.
constexpr std::size_t RecordBodyBytes(std::span<const std::byte, kRecordHeadBytes> head) {
  return std::to_integer<std::size_t>(head[3]) << 8 | std::to_integer<std::size_t>(head[4]);
}
/// What a record with so much data takes up on the wire.
std::size_t RecordBytes(std::size_t data_bytes);

/// The key of one direction of a TLS 1.3 connection, with TLS_AES_128_GCM_SHA256, and the records
/// that it protects (RFC 8446, 5.2). The handshake is OpenSSL's, and so is the cipher; but its
/// records would copy every byte twice more at each end.
///
/// Owner and lifetime: of a TlsStream. Threads: one at a time.
class RecordKey {
 public:
  enum class Use { kSeal, kOpen };

  /// `secret` is the direction's traffic secret. Errors: unsupported, what OpenSSL says.
  static Result<RecordKey> Create(Use use, const Secret& secret);

  /// Makes a record of `first` and then `second`, kMostRecordDataBytes together at most. `record`
  /// is as large as RecordBytes has it.
  Status Seal(RecordType type, std::span<const std::byte> first, std::span<const std::byte> second,
              std::span<std::byte> record);

  struct Opened {
    RecordType type = RecordType::kData;
    std::size_t bytes = 0;
  };
  /// Opens a whole record. Its data begin in `room` and go on in `rest`, as RoomFor has it for the
  /// record; what lies behind them in both is changed, too. Errors: bad input if anybody has
  /// changed anything; then nothing of it is to be used.
  Result<Opened> Open(std::span<const std::byte> record, std::span<std::byte> room,
                      std::span<std::byte, kRecordLineBytes> rest);
  /// How much room `Open` wants.
  static constexpr std::size_t RoomFor(std::size_t record_bytes) {
    const std::size_t inner = record_bytes - kRecordHeadBytes - kRecordTagBytes;
    return (inner - 1) / kRecordLineBytes * kRecordLineBytes;
  }

  /// Takes the next key, as after a KeyUpdate.
  Status Update();

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  static constexpr std::size_t kNonceBytes = 12;

  RecordKey(Use use, const Secret& secret) : use_(use), secret_(secret) {}

  Status Derive();
  /// Begins the next record.
  bool BeginRecord(std::span<const std::byte> head);

  Use use_;
  Secret secret_;
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  std::array<std::uint8_t, kNonceBytes> first_nonce_{};
  std::uint64_t sequence_ = 0;
};

}  // namespace tfos::net

#endif  // TFOS_NET_TLS_RECORD_KEY_H_
