#ifndef TFOS_NET_HANDSHAKE_MESSAGES_H_
#define TFOS_NET_HANDSHAKE_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

// The messages of docs/formats/handshake.md, as bytes. Threads: any.

namespace tfos::net {

/// Random bytes that one end chooses for one connection.
using Nonce = std::array<std::uint8_t, 32>;

Result<Nonce> RandomNonce();

/// What the connecting end says first.
struct Hello {
  static constexpr std::size_t kBytes = 8 + 2 + 1 + 1 + 12 + 32;

  std::array<char, 8> magic{};
  std::uint16_t version = 0;
  Channel channel = Channel::kPlain;
  Numbers numbers;
  Nonce nonce{};
};

/// What the accepting end answers.
struct Challenge {
  static constexpr std::size_t kBytes = 8 + 2 + 1 + 1 + 32;

  std::array<char, 8> magic{};
  std::uint16_t version = 0;
  Channel least = Channel::kPlain;  ///< The weakest channel that it takes here.
  Nonce nonce{};
};

std::string Encode(const Hello& hello);
std::string Encode(const Challenge& challenge);
/// Each takes `kBytes` bytes. Bad input for an unknown channel, or padding that is not zero.
Result<Hello> ParseHello(std::span<const std::byte> bytes);
Result<Challenge> ParseChallenge(std::span<const std::byte> bytes);

/// All that both ends have said, which proofs and keys cover: the bytes of both messages.
struct Transcript {
  std::string_view name;  ///< Of the protocol.
  std::string hello;
  std::string challenge;

  /// The proof of the end whose `role` is "connect" or "accept".
  Digest Proof(const Secret& key, std::string_view role) const;
  /// A key that these two ends have for this connection, and nobody else has.
  Secret ConnectionKey(const Secret& key) const;
};

/// Whether a proof is the one expected; takes as long whatever they are.
bool SameProof(const Digest& expected, const Digest& given);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_MESSAGES_H_
