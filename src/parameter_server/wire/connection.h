#ifndef TFOS_PARAMETER_SERVER_WIRE_CONNECTION_H_
#define TFOS_PARAMETER_SERVER_WIRE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "net/stream.h"
#include "parameter_server/wire/protocol.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// The server's end of a connection: cuts what comes into messages, and sends what is queued. It
/// never waits.
///
/// Owner and lifetime: of a Server; owns the stream. Threads: one. Errors: reconnect when the
/// client is gone, bad input for all but messages. After one it is to be dropped.
class Connection {
 public:
  /// One that is `local` is a Unix socket, over which descriptors may come and go.
  Connection(std::unique_ptr<net::Stream> stream, bool local)
      : stream_(std::move(stream)), local_(local) {}

  int fd() const { return stream_->fd(); }
  bool local() const { return local_; }
  /// There may be something to receive that polling does not show.
  bool holds_bytes() const { return stream_->holds_bytes(); }

  /// A message: its body, and what followed it.
  using OnMessage = std::function<Status(const Header& header, std::span<const std::byte> body,
                                         std::span<const std::byte> data)>;
  /// Takes what has come, up to one message, which it hands out.
  Status Receive(const OnMessage& on_message);
  /// The descriptor that came last; invalid when none has.
  UniqueFd TakePassed() { return std::move(passed_); }

  /// Queues a message. `pass` goes along with it.
  void Send(std::string message, UniqueFd pass = {});
  void Send(std::string message, std::span<const std::byte> data);
  bool sending() const { return sent_ < out_.size(); }
  /// Sends what can be sent now.
  Status Flush();

  std::uint64_t bytes_received() const { return bytes_received_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  enum class Stage { kHeader, kBody, kData };

  Result<net::Transfer> ReceiveInto(std::span<std::byte> room);
  Result<net::Transfer> SendOf(std::span<const std::byte> data);

  std::unique_ptr<net::Stream> stream_;
  bool local_;
  UniqueFd passed_;

  Stage stage_ = Stage::kHeader;
  std::byte header_bytes_[kHeaderBytes] = {};
  Header header_;
  std::vector<std::byte> body_;
  std::vector<std::byte> data_;
  std::size_t data_bytes_ = 0;  ///< That follow this message.
  std::size_t filled_ = 0;      ///< Of the stage.

  std::string out_;
  std::size_t sent_ = 0;
  UniqueFd pass_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_WIRE_CONNECTION_H_
