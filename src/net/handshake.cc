#include "net/handshake.h"

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/memory/bytes.h"
#include "net/proof.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

constexpr std::size_t kMagicBytes = 8;

std::string Words(const Protocol& protocol, std::string_view role, const Nonce& accepting,
                  const Nonce& connecting, Numbers numbers) {
  std::string message =
      ProofText(fmt::format("tfos {} {}", protocol.name, role), accepting, connecting);
  AppendBytes(numbers, message);
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

Result<Peer> Introduce(int socket, const Protocol& protocol, const Secret& token, Numbers numbers,
                       const Wait& wait) {
  std::array<char, kMagicBytes> magic;
  std::uint16_t version = 0;
  Nonce theirs;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(magic), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(version), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(theirs), wait));
  if (std::string_view(magic.data(), magic.size()) != protocol.magic) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("what listens there is not for {}", protocol.name));
  }
  if (version != protocol.version) return OtherVersion(protocol, version);
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, RandomNonce());
  std::string hello;
  AppendBytes(protocol.version, hello);
  AppendBytes(numbers, hello);
  AppendBytes(ours, hello);
  AppendBytes(Proof(token, protocol, "connect", theirs, ours, numbers), hello);
  TFOS_RETURN_IF_ERROR(SendText(socket, hello, wait));
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(proof), wait));
  if (!SameProof(Proof(token, protocol, "accept", theirs, ours, numbers), proof)) return NoMember();
  return MakePeer(token, protocol, theirs, ours, numbers);
}

Result<Peer> Recognize(int socket, const Protocol& protocol, const Secret& token,
                       const std::function<Status(Numbers)>& accepts, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const Nonce ours, RandomNonce());
  std::string challenge(protocol.magic);
  AppendBytes(protocol.version, challenge);
  AppendBytes(ours, challenge);
  TFOS_RETURN_IF_ERROR(SendText(socket, challenge, wait));
  std::uint16_t version = 0;
  Numbers numbers;
  Nonce theirs;
  Digest proof;
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(version), wait));
  if (version != protocol.version) return OtherVersion(protocol, version);
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(numbers), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(theirs), wait));
  TFOS_RETURN_IF_ERROR(ReceiveAll(socket, WritableBytesOf(proof), wait));
  if (!SameProof(Proof(token, protocol, "connect", ours, theirs, numbers), proof))
    return NoMember();
  // What it says is true from here on.
  TFOS_RETURN_IF_ERROR(accepts(numbers));
  std::string welcome;
  AppendBytes(Proof(token, protocol, "accept", ours, theirs, numbers), welcome);
  TFOS_RETURN_IF_ERROR(SendText(socket, welcome, wait));
  return MakePeer(token, protocol, ours, theirs, numbers);
}

}  // namespace tfos::net
