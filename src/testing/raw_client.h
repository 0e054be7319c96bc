#ifndef TFOS_TESTING_RAW_CLIENT_H_
#define TFOS_TESTING_RAW_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/handshake/handshake.h"
#include "net/stream.h"

namespace tfos::testing {

/// A TCP client of 127.0.0.1 that can speak HTTP and WebSocket, or anything else: it lets a test
/// send what a well-behaved library never would.
///
/// Owner and lifetime: owns its socket. Threads: one at a time; calls block, for 20 s at most.
/// Errors: a client that can't go on is closed (`connected` is false), reads then return nothing.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  /// Shakes hands first. Closed where that fails.
  RawClient(std::uint16_t port, const net::Party& party, const net::Numbers& numbers);

  bool connected() const { return stream_ != nullptr; }
  void Close() { stream_.reset(); }

  void Send(std::string_view bytes);
  /// Everything up to the end of the connection.
  std::string ReadAll();
  /// Up to the empty line, and so many bytes; less at the end of the connection.
  std::string ReadHeaders();
  std::string Read(std::size_t bytes);

  /// Sends a request, with `key` as a bearer if there is one, and returns status line, headers and,
  /// if its length is told, the body.
  std::string Get(const std::string& target, const std::string& key = {});
  /// Asks for a WebSocket and returns the answer's headers ("HTTP/1.1 101 ..." when it worked).
  std::string Upgrade(const std::string& target, const std::string& key = {});

  void SendText(std::string_view message);
  /// A masked frame with any header: `announced_bytes` may differ from the payload's length.
  void SendFrame(unsigned char opcode, std::uint64_t announced_bytes, std::string_view payload);
  /// The next text message; nullopt at the end of the connection.
  std::optional<std::string> ReadText();

 private:
  /// Reads until `buffer_` has that many bytes; false at the end of the connection.
  bool Fill(std::size_t bytes);
  bool ReadSome();

  std::unique_ptr<net::Stream> stream_;
  std::string buffer_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_RAW_CLIENT_H_
