#ifndef TFOS_CONTROL_LINK_STREAM_ASYNC_STREAM_H_
#define TFOS_CONTROL_LINK_STREAM_ASYNC_STREAM_H_

#include <sys/socket.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "control/link/stream/watched_fd.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::control {

/// A net::Stream as Asio and Beast want one (their AsyncStream): HTTP and WebSocket go over it
/// whether the bytes are encrypted or not.
///
/// Owner and lifetime: outlives what it was asked to do; owns the stream. Threads: those of one
/// single-threaded executor. One read and one write at a time.
/// Errors: operation_aborted once it is closed, eof when the other end has closed,
/// connection_reset when the connection is broken, and `failure` then says why.
class AsyncStream {
 public:
  using executor_type = boost::asio::any_io_executor;
  using Error = boost::system::error_code;

  AsyncStream(const executor_type& executor, std::unique_ptr<net::Stream> stream)
      : executor_(executor), stream_(std::move(stream)), socket_(executor, stream_->fd()) {}

  executor_type get_executor() { return executor_; }
  /// What the stream said when it broke; ok before, and when it was closed.
  const Status& failure() const { return failure_; }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_compose<Token, void(Error, std::size_t)>(
        Operation<Reading>{this, {SpaceIn(buffers)}}, token, executor_);
  }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_compose<Token, void(Error, std::size_t)>(
        Operation<Writing>{this, DataIn(buffers)}, token, executor_);
  }

  /// The other end gets what was sent, and then the end, which it can tell from a connection that
  /// somebody in between has cut. Calls `token` as `void(error_code, std::size_t)`.
  template <typename Token>
  auto async_end_sending(Token&& token) {
    return boost::asio::async_compose<Token, void(Error, std::size_t)>(Operation<Ending>{this, {}},
                                                                       token, executor_);
  }
  /// After eof: the other end has ended, as far as that can be known. If not, bytes may be missing.
  bool other_end_has_ended() const { return stream_ != nullptr && stream_->other_end_has_ended(); }

  /// Ends everything at once.
  void Close() {
    socket_.Release();
    stream_.reset();
  }

  /// As Close, where bytes are missing: the other end gets a reset, and so does not take what it
  /// has got for all.
  void Break() {
    if (stream_ != nullptr) {
      const linger none{.l_onoff = 1, .l_linger = 0};
      // Fails on a connection that is gone already.
      static_cast<void>(::setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
    }
    Close();
  }

  /// The other end gets what was sent, and then the end of the connection, which it can't tell from
  /// a cut.
  void ShutDownSending() {
    if (stream_ != nullptr) ::shutdown(stream_->fd(), SHUT_WR);
  }

 private:
  struct Reading {
    std::span<std::byte> space;
    static constexpr WatchedFd::Event kEvent = WatchedFd::kInput;
    bool empty() const { return space.empty(); }
    Result<net::Transfer> Try(net::Stream& stream) const { return stream.Receive(space); }
  };
  struct Writing {
    std::span<const std::byte> first;
    std::span<const std::byte> second;
    static constexpr WatchedFd::Event kEvent = WatchedFd::kOutput;
    bool empty() const { return first.empty() && second.empty(); }
    Result<net::Transfer> Try(net::Stream& stream) const { return stream.Send(first, second); }
  };

  struct Ending {
    static constexpr WatchedFd::Event kEvent = WatchedFd::kOutput;
    static constexpr bool empty() { return false; }
    static Result<net::Transfer> Try(net::Stream& stream) { return stream.EndSending(); }
  };

  /// Tries until it was not blocked.
  template <typename What>
  struct Operation {
    AsyncStream* stream;
    What what;
    bool waited = false;
    bool ended = false;
    Error error = {};
    std::size_t bytes = 0;

    template <typename Self>
    void operator()(Self& self, Error failed = {}) {
      if (ended || failed) {
        self.complete(ended ? error : failed, bytes);
        return;
      }
      if (Blocked()) {
        waited = true;
        stream->socket_.Wait(What::kEvent, std::move(self));
      } else if (waited) {
        self.complete(error, bytes);
      } else {
        // Nothing may be called back before this has returned.
        ended = true;
        boost::asio::post(stream->executor_, std::move(self));
      }
    }

    bool Blocked() {
      if (stream->stream_ == nullptr) {
        error = boost::asio::error::operation_aborted;
        return false;
      }
      if (what.empty()) return false;
      const Result<net::Transfer> moved = what.Try(*stream->stream_);
      if (!moved.ok()) {
        error = boost::asio::error::connection_reset;
        stream->failure_ = moved.status();
        return false;
      }
      bytes = moved->bytes;
      if (moved->ended) error = boost::asio::error::eof;
      return bytes == 0 && moved->blocked;
    }
  };

  template <typename Buffers>
  static std::span<std::byte> SpaceIn(const Buffers& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != end; ++at) {
      const boost::asio::mutable_buffer buffer(*at);
      if (buffer.size() > 0) return {static_cast<std::byte*>(buffer.data()), buffer.size()};
    }
    return {};
  }

  /// The first two parts that are not empty.
  template <typename Buffers>
  static Writing DataIn(const Buffers& buffers) {
    std::array<std::span<const std::byte>, 2> parts;
    std::size_t count = 0;
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != end && count < 2; ++at) {
      const boost::asio::const_buffer buffer(*at);
      if (buffer.size() == 0) continue;
      parts[count++] = {static_cast<const std::byte*>(buffer.data()), buffer.size()};
    }
    return {parts[0], parts[1]};
  }

  executor_type executor_;
  std::unique_ptr<net::Stream> stream_;
  WatchedFd socket_;  ///< Of the stream: goes first.
  Status failure_;
};

// What Beast calls by these names: at a time limit, and after both ends of a WebSocket have said
// that they close.

inline void beast_close_socket(AsyncStream& stream) { stream.Close(); }

inline void teardown(boost::beast::role_type /*role*/, AsyncStream& stream,
                     boost::system::error_code& error) {
  stream.ShutDownSending();
  error = {};
}

template <typename Handler>
void async_teardown(boost::beast::role_type /*role*/, AsyncStream& stream, Handler&& handler) {
  stream.ShutDownSending();
  boost::asio::post(stream.get_executor(),
                    boost::beast::bind_front_handler(std::forward<Handler>(handler),
                                                     boost::system::error_code()));
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_STREAM_ASYNC_STREAM_H_
