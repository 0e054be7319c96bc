#ifndef TFOS_NET_TLS_TLS_STREAM_H_
#define TFOS_NET_TLS_TLS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "net/stream.h"
#include "net/tls/record_key.h"
#include "net/tls/tls_wire.h"

struct ssl_st;

namespace tfos::net {

/// What OpenSSL asks for in a handshake, and finds.
struct TlsSecrets {
  Secret key;  ///< The pre-shared one.
  std::optional<Secret>
      connecting;  ///< Traffic secrets (RFC 8446, 7.1), by the end that sends with them.
  std::optional<Secret> accepting;
};

/// The bytes go through the socket in records of TLS 1.3. Both ends know a key, so there are no
/// certificates; a Diffie-Hellman exchange goes with it, so that who learns the cluster's token
/// later can't read what was recorded.
///
/// The handshake is OpenSSL's; the records are made here, from where the bytes are and to where
/// they are to be.
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
    /// That are encrypted and sent together. A connection costs twice as much memory, once the
    /// other end has proved that it has the key.
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
  Result<Transfer> EndSending() override;
  bool other_end_has_ended() const override { return said_goodbye_; }
  bool holds_bytes() const override { return !drained_; }

 private:
  struct Deleter {
    void operator()(ssl_st* ssl) const;
  };

  TlsStream(UniqueFd socket, const Secret& key, const Options& options);

  /// Whether the other end's ClientHello is there. Bad input for what is not of tfos.
  Result<bool> HasClientHello();
  Status BeginOpenSsl(Side side);
  /// Takes the keys of both directions from the handshake, and lets go of OpenSSL's state.
  Status BeginRecords();
  /// Makes records of a batch.
  Status Encrypt(std::span<const std::byte> first, std::span<const std::byte> second);
  Status MakeRecord(RecordType type, std::span<const std::byte> first,
                    std::span<const std::byte> second);
  /// How many bytes the next record has, as far as its head has come. Bad input for an impossible
  /// one.
  Result<std::size_t> NextRecord() const;
  /// Opens a record into `space` as far as it goes; the rest is held. Returns how many bytes came
  /// there.
  Result<std::size_t> TakeRecord(std::span<const std::byte> record, std::span<std::byte> space);
  Result<Transfer> ReceiveRecords(std::span<std::byte> space);
  Status OnControl(RecordType type, std::span<const std::byte> content);
  std::size_t TakeHeld(std::span<std::byte> space);

  TlsWire wire_;                          ///< Before what uses it.
  std::unique_ptr<ssl_st, Deleter> ssl_;  ///< During the handshake.
  TlsSecrets secrets_;
  const Options options_;
  bool handshake_done_ = false;
  std::optional<RecordKey> seal_;
  std::optional<RecordKey> open_;
  std::size_t encrypted_ = 0;  ///< Bytes whose records the socket has not taken all of yet.
  std::uint64_t sent_ = 0;     ///< With the current key.
  bool ended_ = false;         ///< Nothing more comes.
  bool said_goodbye_ = false;  ///< As the other end has said itself.
  bool says_goodbye_ = false;  ///< To it.
  /// Nothing is sent, or received, after a record that can't be made or opened.
  Status send_failure_;
  Status receive_failure_;
  bool drained_ = false;             ///< Nothing is left of what has come.
  std::vector<std::byte> record_;    ///< Opened, where there was no space for all of it.
  std::span<const std::byte> held_;  ///< Of that: not taken yet.
};

}  // namespace tfos::net

#endif  // TFOS_NET_TLS_TLS_STREAM_H_
