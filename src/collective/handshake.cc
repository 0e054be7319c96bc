#include "collective/handshake.h"

#include <poll.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/format.h"
#include "net/socket.h"

namespace tfos::collective {
namespace {

constexpr std::uint16_t kVersion = 2;
constexpr std::string_view kMagic = "tfos-ten";
constexpr std::size_t kNonceBytes = 32;

using Nonce = std::array<char, kNonceBytes>;

struct Numbers {
  std::uint32_t connecting = 0;
  std::uint32_t accepting = 0;
};

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

template <typename T>
void Append(const T& value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Status TooLate() { return {ErrorKind::kRetryLater, "no answer within the deadline"}; }

Status ReceiveAll(int socket, std::span<std::byte> room, const Wait& wait) {
  while (!room.empty()) {
    TFOS_ASSIGN_OR_RETURN(const net::Transfer got, net::Receive(socket, room, nullptr));
    if (got.ended) return {ErrorKind::kReconnect, "the other end closed the connection"};
    room = room.subspan(got.bytes);
    if (!got.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(socket, POLLIN, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

Status SendAll(int socket, std::string_view text, const Wait& wait) {
  std::span<const std::byte> rest = std::as_bytes(std::span(text));
  while (!rest.empty()) {
    TFOS_ASSIGN_OR_RETURN(const net::Transfer sent, net::Send(socket, rest, {}));
    rest = rest.subspan(sent.bytes);
    if (!sent.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(socket, POLLOUT, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

Result<Nonce> MakeNonce() {
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  Nonce nonce;
  static_assert(Secret::kBytes == kNonceBytes);
  std::memcpy(nonce.data(), random.bytes().data(), kNonceBytes);
  return nonce;
}

Digest Proof(const Secret& token, std::string_view role, const Nonce& accepting,
             const Nonce& connecting, Numbers numbers) {
  std::string message = fmt::format("tfos tensors {}", role);
  message.append(accepting.data(), accepting.size());
  message.append(connecting.data(), connecting.size());
  Append(numbers, message);
  return HmacSha256(token, message);
}

bool Equal(const Digest& a, const Digest& b) {
  const auto text = [](const Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  return ConstantTimeEqual(text(a), text(b));
}

Status OtherVersion(std::uint16_t version) {
  return {ErrorKind::kBadInput,
          fmt::format("the other end speaks version {} of the tensor protocol, this one {}: "
                      "install the same tfos on all hosts",
                      version, kVersion)};
}

Status NoMember() {
  return {ErrorKind::kBadInput, "the other end does not know the cluster's token"};
}

}  // namespace

Status Introduce(int socket, const Secret& token, std::uint32_t rank, std::uint32_t peer,
                 const Wait& wait) {
  std::array<char, kMagic.size()> magic;
  std::uint16_t version = 0;
  Nonce theirs;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(magic), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(version), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(theirs), wait));
  if (std::string_view(magic.data(), magic.size()) != kMagic) {
    return {ErrorKind::kBadInput, "what listens there is no member of the cluster"};
  }
  if (version != kVersion) return OtherVersion(version);
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, MakeNonce());
  const Numbers numbers{.connecting = rank, .accepting = peer};
  std::string hello;
  Append(kVersion, hello);
  Append(numbers, hello);
  hello.append(ours.data(), ours.size());
  Append(Proof(token, "connect", theirs, ours, numbers), hello);
  TFOS_RETURN_IF_ERROR(SendAll(socket, hello, wait));
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(proof), wait));
  return Equal(proof, Proof(token, "accept", theirs, ours, numbers)) ? Status() : NoMember();
}

Result<std::uint32_t> Recognize(int socket, const Secret& token, std::uint32_t rank,
                                std::uint32_t members, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, MakeNonce());
  std::string challenge(kMagic);
  Append(kVersion, challenge);
  challenge.append(ours.data(), ours.size());
  TFOS_RETURN_IF_ERROR(SendAll(socket, challenge, wait));
  std::uint16_t version = 0;
  Numbers numbers;
  Nonce theirs;
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(version), wait));
  if (version != kVersion) return OtherVersion(version);
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(numbers), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(theirs), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, BytesOf(proof), wait));
  if (!Equal(proof, Proof(token, "connect", ours, theirs, numbers))) return NoMember();
  // What it says is true from here on.
  if (numbers.accepting != rank || numbers.connecting <= rank || numbers.connecting >= members) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("member {} connected to what it took for member {}, and this is {}",
                              numbers.connecting, numbers.accepting, rank));
  }
  std::string welcome;
  Append(Proof(token, "accept", ours, theirs, numbers), welcome);
  TFOS_RETURN_IF_ERROR(SendAll(socket, welcome, wait));
  return numbers.connecting;
}

}  // namespace tfos::collective
