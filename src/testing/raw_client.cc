#include "testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace tfos::testing {
namespace {

constexpr timeval kTimeout = {.tv_sec = 20, .tv_usec = 0};
constexpr unsigned char kText = 1;
constexpr unsigned char kClose = 8;
constexpr unsigned char kPing = 9;
constexpr unsigned char kPong = 10;

std::string RequestHead(const std::string& target, const std::string& token) {
  std::string head = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!token.empty()) head += "Authorization: Bearer " + token + "\r\n";
  return head;
}

}  // namespace

RawClient::RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0) {
    Close();
  }
}

void RawClient::Send(std::string_view bytes) {
  while (connected() && !bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    // The peer may refuse the rest; what it answered can still be read.
    if (sent < 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool RawClient::ReadSome() {
  std::array<char, 65536> bytes;
  const ssize_t got = connected() ? ::recv(fd_.get(), bytes.data(), bytes.size(), 0) : 0;
  if (got <= 0) {
    Close();
    return false;
  }
  buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
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

std::string RawClient::Get(const std::string& target, const std::string& token) {
  Send(RequestHead(target, token) + "\r\n");
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

std::string RawClient::Upgrade(const std::string& target, const std::string& token) {
  Send(RequestHead(target, token) +
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
