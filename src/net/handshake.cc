#include "net/handshake.h"

#include <poll.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/format.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kNonceBytes = 32;

using Nonce = std::array<char, kNonceBytes>;

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

template <typename T>
void Append(const T& value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Status TooLate() { return {ErrorKind::kRetryLater, "no answer within the deadline"}; }

Result<Nonce> MakeNonce() {
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  Nonce nonce;
  static_assert(Secret::kBytes == kNonceBytes);
  std::memcpy(nonce.data(), random.bytes().data(), kNonceBytes);
  return nonce;
}

std::string Words(const Protocol& protocol, std::string_view role, const Nonce& accepting,
                  const Nonce& connecting, Numbers numbers) {
  std::string message = fmt::format("tfos {} {}", protocol.name, role);
  message.append(accepting.data(), accepting.size());
  message.append(connecting.data(), connecting.size());
  Append(numbers, message);
  return message;
}

Digest Proof(const Secret& token, const Protocol& protocol, std::string_view role,
             const Nonce& accepting, const Nonce& connecting, Numbers numbers) {
  return HmacSha256(token, Words(protocol, role, accepting, connecting, numbers));
}

Peer MakePeer(const Secret& token, const Protocol& protocol, const Nonce& accepting,
              const Nonce& connecting, Numbers numbers) {
  return {.numbers = numbers,
          .key = DeriveSecret(token, Words(protocol, "key", accepting, connecting, numbers))};
}

bool Equal(const Digest& a, const Digest& b) {
  const auto text = [](const Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  return ConstantTimeEqual(text(a), text(b));
}

Status OtherVersion(const Protocol& protocol, std::uint16_t version) {
  return {ErrorKind::kBadInput,
          fmt::format("the other end speaks version {} of the protocol for {}, this one {}: "
                      "install the same tfos on all hosts",
                      version, protocol.name, protocol.version)};
}

Status NoMember() {
  return {ErrorKind::kBadInput, "the other end does not know the cluster's token"};
}

Status SendText(int socket, std::string_view text, const Wait& wait) {
  return SendAll(socket, std::as_bytes(std::span(text)), wait);
}

}  // namespace

Status ReceiveAll(int socket, std::span<std::byte> room, const Wait& wait) {
  while (!room.empty()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer got, Receive(socket, room, nullptr));
    if (got.ended) return {ErrorKind::kReconnect, "the other end closed the connection"};
    room = room.subspan(got.bytes);
    if (!got.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(socket, POLLIN, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

Status SendAll(int socket, std::span<const std::byte> data, const Wait& wait) {
  while (!data.empty()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer sent, Send(socket, data, {}));
    data = data.subspan(sent.bytes);
    if (!sent.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(socket, POLLOUT, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

Result<Peer> Introduce(int socket, const Protocol& protocol, const Secret& token, Numbers numbers,
                       const Wait& wait) {
  std::array<char, kMagicBytes> magic;
  std::uint16_t version = 0;
  Nonce theirs;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(magic), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(version), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(theirs), wait));
  if (std::string_view(magic.data(), magic.size()) != protocol.magic) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("what listens there is not for {}", protocol.name));
  }
  if (version != protocol.version) return OtherVersion(protocol, version);
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, MakeNonce());
  std::string hello;
  Append(protocol.version, hello);
  Append(numbers, hello);
  hello.append(ours.data(), ours.size());
  Append(Proof(token, protocol, "connect", theirs, ours, numbers), hello);
  TFOS_RETURN_IF_ERROR(SendText(socket, hello, wait));
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(proof), wait));
  if (!Equal(proof, Proof(token, protocol, "accept", theirs, ours, numbers))) return NoMember();
  return MakePeer(token, protocol, theirs, ours, numbers);
}

Result<Peer> Recognize(int socket, const Protocol& protocol, const Secret& token,
                       const std::function<Status(Numbers)>& accepts, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, MakeNonce());
  std::string challenge(protocol.magic);
  Append(protocol.version, challenge);
  challenge.append(ours.data(), ours.size());
  TFOS_RETURN_IF_ERROR(SendText(socket, challenge, wait));
  std::uint16_t version = 0;
  Numbers numbers;
  Nonce theirs;
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(version), wait));
  if (version != protocol.version) return OtherVersion(protocol, version);
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(numbers), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(theirs), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(proof), wait));
  if (!Equal(proof, Proof(token, protocol, "connect", ours, theirs, numbers))) return NoMember();
  // What it says is true from here on.
  TFOS_RETURN_IF_ERROR(accepts(numbers));
  std::string welcome;
  Append(Proof(token, protocol, "accept", ours, theirs, numbers), welcome);
  TFOS_RETURN_IF_ERROR(SendText(socket, welcome, wait));
  return MakePeer(token, protocol, ours, theirs, numbers);
}

}  // namespace tfos::net
