#ifndef TFOS_NET_TLS_TLS_STREAM_H_
#define TFOS_NET_TLS_TLS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "net/stream.h"
#include "net/tls/tls_wire.h"

struct ssl_st;

namespace tfos::net {

/// The bytes go through the socket in records of TLS 1.3. Both ends know a key, so there are no
/// certificates; a Diffie-Hellman exchange goes with it, so that who learns the cluster's token
/// later can't read what was recorded.
///
/// Owner, threads, errors: as Stream. Cost: AES-128-GCM of every byte.
class TlsStream final : public Stream {
 public:
  enum class Side { kConnecting, kAccepting };
  /// After so many bytes a direction takes another key. AES-GCM is safe for 2^24.5 full records
  /// with one (RFC 8446, 5.5); this is a quarter of that.
  static constexpr std::uint64_t kBytesPerKey = std::uint64_t{1} << 36;
  static constexpr std::size_t kBatchBytes = TlsWire::kBatchBytes;

  struct Options {
    std::uint64_t bytes_per_key = kBytesPerKey;
    /// That are encrypted and sent together. A connection costs twice as much memory.
    std::size_t batch_bytes = kBatchBytes;
  };
  /// Where TLS's handshake is: poll the socket for input or output, or it is done.
  enum class Progress { kReading, kWriting, kDone };

  /// A stream over a connected socket, where nothing is under way. Nothing may be sent or received
  /// before ShakeHands is done. `key` is one that only the two ends of this connection have.
  static Result<std::unique_ptr<TlsStream>> Begin(UniqueFd socket, Side side, const Secret& key,
                                                  const Options& options);
  /// Does what can be done of TLS's handshake without waiting. Errors: bad input when the other end
  /// has another key; reconnect when it closes.
  Result<Progress> ShakeHands();
  /// Both, waiting. Errors: also retry later when the deadline passes.
  static Result<std::unique_ptr<TlsStream>> Open(UniqueFd socket, Side side, const Secret& key,
                                                 const Wait& wait, const Options& options);
  ~TlsStream() override;

  std::string Describe() const override { return "tcp with TLS"; }
  Result<Transfer> Send(std::span<const std::byte> first,
                        std::span<const std::byte> second) override;
  Result<Transfer> Receive(std::span<std::byte> space) override;
  bool holds_bytes() const override { return !drained_; }

 private:
  struct Deleter {
    void operator()(ssl_st* ssl) const;
  };
  static constexpr std::size_t kRecordBytes = std::size_t{16} << 10;

  TlsStream(UniqueFd socket, std::unique_ptr<ssl_st, Deleter> ssl, const Secret& key,
            const Options& options);

  /// Makes records of a batch.
  Status Encrypt(std::span<const std::byte> first, std::span<const std::byte> second);
  Status Write(std::span<const std::byte> data);

  TlsWire wire_;  ///< Before what uses it.
  std::unique_ptr<ssl_st, Deleter> ssl_;
  const Secret key_;
  const Options options_;
  bool handshake_done_ = false;
  std::size_t encrypted_ = 0;  ///< Bytes whose records the socket has not taken all of yet.
  std::uint64_t sent_ = 0;     ///< With the current key.
  bool drained_ = false;       ///< Nothing is left of what has come.
  std::byte record_[kRecordBytes];
};

}  // namespace tfos::net

#endif  // TFOS_NET_TLS_TLS_STREAM_H_
