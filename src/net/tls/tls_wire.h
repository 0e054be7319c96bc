#ifndef TFOS_NET_TLS_TLS_WIRE_H_
#define TFOS_NET_TLS_TLS_WIRE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tfos/status.h"

struct bio_st;

namespace tfos::net {

/// What lies between OpenSSL and a socket: OpenSSL reads and writes a record of 16 KiB at a time,
/// and the system is called once for several, because a call and the waking of the other end cost
/// more than to encrypt one.
///
/// Owner and lifetime: of a TlsStream; goes after the BIO that was made of it. Threads: one at a
/// time. Cost: twice `batch_bytes` of memory.
class TlsWire {
 public:
  /// Stays in a core's cache, and keeps the other end busy while the next is encrypted.
  static constexpr std::size_t kBatchBytes = std::size_t{64} << 10;

  /// `socket` stays the caller's, and must stay open.
  explicit TlsWire(int socket, std::size_t batch_bytes = kBatchBytes);
  TlsWire(const TlsWire&) = delete;
  TlsWire& operator=(const TlsWire&) = delete;

  /// For OpenSSL to read from and write to. What it writes is kept until Flush. Null when there is
  /// no memory; else its holder frees it.
  bio_st* MakeBio();

  /// Sends what OpenSSL has written. False when the socket does not take all of it now.
  Result<bool> Flush();
  /// OpenSSL has written what was not sent yet.
  bool holds_output() const { return sent_ < out_.size(); }

 private:
  friend struct TlsWireBio;

  const int socket_;
  const std::size_t batch_bytes_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  ///< Of it.
  std::unique_ptr<std::byte[]> in_;
  std::span<const std::byte> unread_;  ///< Of it.
};

}  // namespace tfos::net

#endif  // TFOS_NET_TLS_TLS_WIRE_H_
