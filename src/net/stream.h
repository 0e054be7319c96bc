#ifndef TFOS_NET_STREAM_H_
#define TFOS_NET_STREAM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "net/socket.h"
#include "tfos/status.h"

namespace tfos::net {

/// Bytes in both directions between two processes, in order, however they travel. Never waits:
/// its user polls the socket, and for one beside it what moves its bytes.
///
/// Owner and lifetime: the one that speaks a protocol over it; owns the socket. Threads: one at a
/// time. Errors: reconnect or what the system says, when the connection is broken; nothing more is
/// to be sent or received then.
class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// The socket shows when the peer is gone.
  int fd() const { return socket_.valid() || beside_ == nullptr ? socket_.get() : beside_->fd(); }
  /// The bytes take another way, and the socket is left to what ends the connection.
  virtual bool beside_socket() const { return false; }
  /// For a stream beside a socket, that was opened without it: takes the stream through that
  /// socket.
  void Adopt(std::unique_ptr<Stream> beside) { beside_ = std::move(beside); }
  /// What was adopted, for what ends the connection; null without.
  Stream* beside() const { return beside_.get(); }
  /// How the bytes travel, for the log: `tcp`, `ucx (tcp/eth0)`.
  virtual std::string Describe() const = 0;

  /// Sends what it takes of `first` and then `second`, and says how much of them it does not need
  /// any more. After a call that was blocked the same bytes must be given again.
  virtual Result<Transfer> Send(std::span<const std::byte> first,
                                std::span<const std::byte> second) = 0;
  /// Receives into `space`, which is not empty. After a call that was blocked the same space must
  /// be given again.
  virtual Result<Transfer> Receive(std::span<std::byte> space) = 0;
  /// Tells the other end that nothing more comes, once all was sent. To be called again after a
  /// call that was blocked.
  virtual Result<Transfer> EndSending();
  /// Once `Receive` has come to the end: it was the other end that ended, not somebody in between
  /// who has cut the connection. True where that can't be known.
  virtual bool other_end_has_ended() const { return true; }
  /// There may be bytes to receive that the socket does not show: `Receive` was not blocked yet
  /// since some came.
  virtual bool holds_bytes() const { return false; }

 protected:
  explicit Stream(UniqueFd socket) : socket_(std::move(socket)) {}

 private:
  UniqueFd socket_;
  std::unique_ptr<Stream> beside_;
};

/// The bytes go through the socket as they are.
class SocketStream final : public Stream {
 public:
  explicit SocketStream(UniqueFd socket) : Stream(std::move(socket)) {}

  std::string Describe() const override { return "tcp"; }
  Result<Transfer> Send(std::span<const std::byte> first,
                        std::span<const std::byte> second) override {
    return net::Send(fd(), first, second);
  }
  Result<Transfer> Receive(std::span<std::byte> space) override {
    return net::Receive(fd(), space, nullptr);
  }
};

// Over a stream that goes through its socket. Errors: also retry later at the deadline.

/// Sends all of `data`.
Status SendAll(Stream& stream, std::span<const std::byte> data, const Wait& wait);
/// Fills `room`. Reconnect when the other end closes before.
Status ReceiveAll(Stream& stream, std::span<std::byte> room, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_STREAM_H_
