#ifndef TFOS_NET_TLS_TLS_WIRE_H_
#define TFOS_NET_TLS_TLS_WIRE_H_

#include <cstddef>
#include <span>

#include "base/memory/aligned_buffer.h"
#include "net/socket.h"
#include "tfos/status.h"

struct bio_st;

namespace tfos::net {

/// What lies between records of TLS and a socket. A record has 16 KiB at most, and the system is
/// called once for several, because a call and the waking of the other end cost more than to
/// encrypt one.
///
/// Owner and lifetime: of a TlsStream; goes after the BIO that was made of it. Threads: one at a
/// time. Errors: no resources when there is no memory. What happens below OpenSSL, which takes no
/// exceptions and no words, is kept as `failure`. Cost: 2 KiB of memory; from Widen on twice
/// `batch_bytes`, or the largest record.
class TlsWire {
 public:
  /// Stays in a core's cache, and keeps the other end busy while the next is encrypted.
  static constexpr std::size_t kBatchBytes = std::size_t{96} << 10;

  /// Enough for the handshake, in which the other end may be anybody.
  static constexpr std::size_t kFirstBytes = std::size_t{1} << 10;

  /// `socket` stays the caller's, and must stay open. Without memory for it `failure` says so.
  explicit TlsWire(int socket, std::size_t first_bytes = kFirstBytes);
  TlsWire(const TlsWire&) = delete;
  TlsWire& operator=(const TlsWire&) = delete;

  /// Makes room for batches of so many bytes, both ways.
  Status Widen(std::size_t batch_bytes);

  /// For OpenSSL to read from and write to. What it writes is kept until Flush. Null when there is
  /// no memory; else its holder frees it.
  bio_st* MakeBio();

  /// What went wrong when OpenSSL read or wrote, or before.
  Status failure() const;

  /// Room for so many bytes behind what is to be sent.
  Result<std::span<std::byte>> Append(std::size_t bytes);
  /// Sends what was appended. False when the socket does not take all of it now.
  Result<bool> Flush();
  /// What was appended was not all sent yet.
  bool holds_output() const { return sent_ < out_end_; }

  /// What has come and was not taken.
  std::span<const std::byte> input() const {
    return in_.bytes().subspan(in_begin_, in_end_ - in_begin_);
  }
  void Take(std::size_t bytes) { in_begin_ += bytes; }
  /// Receives more, so that `wanted` bytes of input have room.
  Result<Transfer> Fill(std::size_t wanted);

 private:
  friend struct TlsWireBio;

  const int socket_;
  AlignedBuffer out_;
  std::size_t sent_ = 0;     ///< Of what is in it.
  std::size_t out_end_ = 0;  ///< Behind what is in it.
  AlignedBuffer in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  Status failure_;
  bool no_memory_ = false;  ///< Not even for a Status.
};

}  // namespace tfos::net

#endif  // TFOS_NET_TLS_TLS_WIRE_H_
