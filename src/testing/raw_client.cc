#include "testing/raw_client.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <span>
#include <utility>

#include "net/poll.h"
#include "net/socket.h"

namespace tfos::testing {
namespace {

Wait Soon() { return {.deadline = Deadline::After(std::chrono::seconds(20))}; }

constexpr unsigned char kText = 1;
constexpr unsigned char kClose = 8;
constexpr unsigned char kPing = 9;
constexpr unsigned char kPong = 10;

std::string RequestHead(const std::string& target, const std::string& key) {
  std::string head = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!key.empty()) head += "Authorization: Bearer " + key + "\r\n";
  return head;
}

}  // namespace

RawClient::RawClient(std::uint16_t port) {
  auto socket = net::ConnectTcp("127.0.0.1", port, Soon());
  if (socket.ok()) stream_ = std::make_unique<net::SocketStream>(std::move(socket).value());
}

RawClient::RawClient(std::uint16_t port, const net::Party& party, const net::Numbers& numbers) {
  auto socket = net::ConnectTcp("127.0.0.1", port, Soon());
  if (!socket.ok()) return;
  auto connection = net::ShakeHands(std::move(socket).value(), party, numbers, Soon());
  if (connection.ok()) stream_ = std::move(connection->stream);
}

void RawClient::Send(std::string_view bytes) {
  if (!connected()) return;
  // The peer may refuse the rest; what it answered can still be read.
  static_cast<void>(net::SendAll(*stream_, std::as_bytes(std::span(bytes)), Soon()).ok());
}

bool RawClient::ReadSome() {
  std::array<char, 65536> bytes;
  while (connected()) {
    const auto got = stream_->Receive(std::as_writable_bytes(std::span(bytes)));
    if (!got.ok() || got->ended) break;
    buffer_.append(bytes.data(), got->bytes);
    if (got->bytes > 0) return true;
    const auto ready = net::Poll(stream_->fd(), POLLIN, Soon());
    if (!ready.ok() || *ready == 0) break;
  }
  Close();
  return false;
}

bool RawClient::Fill(std::size_t bytes) {
  while (buffer_.size() < bytes) {
    if (!ReadSome()) return false;
  }
  return true;
}

std::string RawClient::ReadAll() {
  while (ReadSome()) {
  }
  return std::exchange(buffer_, {});
}

std::string RawClient::ReadHeaders() {
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!ReadSome()) return std::exchange(buffer_, {});
  }
  std::string headers = buffer_.substr(0, end + 4);
  buffer_.erase(0, end + 4);
  return headers;
}

std::string RawClient::Read(std::size_t bytes) {
  Fill(bytes);
  std::string read = buffer_.substr(0, bytes);
  buffer_.erase(0, read.size());
  return read;
}

std::string RawClient::Get(const std::string& target, const std::string& key) {
  Send(RequestHead(target, key) + "\r\n");
  std::string answer = ReadHeaders();
  constexpr std::string_view kLength = "Content-Length: ";
  const std::size_t at = answer.find(kLength);
  if (at == std::string::npos) return answer;
  const std::size_t length = std::strtoul(answer.c_str() + at + kLength.size(), nullptr, 10);
  if (Fill(length)) {
    answer += buffer_.substr(0, length);
    buffer_.erase(0, length);
  }
  return answer;
}

std::string RawClient::Upgrade(const std::string& target, const std::string& key) {
  Send(RequestHead(target, key) +
       "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  return ReadHeaders();
}

void RawClient::SendText(std::string_view message) { SendFrame(kText, message.size(), message); }

void RawClient::SendFrame(unsigned char opcode, std::uint64_t announced_bytes,
                          std::string_view payload) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  int length_bytes = 0;
  if (announced_bytes < 126) {
    frame += static_cast<char>(0x80 | announced_bytes);
  } else {
    length_bytes = announced_bytes < 65536 ? 2 : 8;
    frame += static_cast<char>(0x80 | (length_bytes == 2 ? 126 : 127));
  }
  for (int i = length_bytes - 1; i >= 0; --i) {
    frame += static_cast<char>((announced_bytes >> (8 * i)) & 0xff);
  }
  frame.append(4, '\0');  // masked with zeros, which is as good as any mask
  frame += payload;
  Send(frame);
}

std::optional<std::string> RawClient::ReadText() {
  while (Fill(2)) {
    const unsigned char opcode = static_cast<unsigned char>(buffer_[0]) & 0x0f;
    std::uint64_t length = static_cast<unsigned char>(buffer_[1]) & 0x7f;
    const std::size_t length_bytes = length == 126 ? 2 : length == 127 ? 8 : 0;
    if (!Fill(2 + length_bytes)) break;
    if (length_bytes > 0) length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
      length = length << 8 | static_cast<unsigned char>(buffer_[2 + i]);
    }
    if (!Fill(2 + length_bytes + length)) break;
    std::string payload = buffer_.substr(2 + length_bytes, length);
    buffer_.erase(0, 2 + length_bytes + length);
    if (opcode == kText) return payload;
    if (opcode == kPing) SendFrame(kPong, payload.size(), payload);
    if (opcode == kClose) {
      SendFrame(kClose, payload.size(), payload);
      Close();
    }
  }
  return std::nullopt;
}

}  // namespace tfos::testing
