#include "net/handshake/messages.h"

#include <algorithm>

#include "base/format.h"
#include "base/memory/bytes.h"

namespace tfos::net {
namespace {

constexpr std::uint8_t kPadding = 0;

std::string Words(const Transcript& transcript, std::string_view role) {
  return fmt::format("tfos {} {}", transcript.name, role) + transcript.hello + transcript.challenge;
}

/// Bad input where a message has another form than the last `reader` took it for.
Status Checked(ByteReader& reader, std::string_view what) {
  if (reader.Take<std::uint8_t>() != kPadding) reader.Refuse();
  return reader.left() > 0 ? Status()
                           : Status(ErrorKind::kBadInput, fmt::format("{} is malformed", what));
}

}  // namespace

Result<Nonce> RandomNonce() {
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  Nonce nonce;
  static_assert(Secret::kBytes == sizeof(nonce));
  std::copy(random.bytes().begin(), random.bytes().end(), nonce.begin());
  return nonce;
}

std::string Encode(const Hello& hello) {
  std::string bytes;
  AppendBytes(hello.magic, bytes);
  AppendBytes(hello.version, bytes);
  AppendBytes(hello.channel, bytes);
  AppendBytes(kPadding, bytes);
  AppendBytes(hello.numbers, bytes);
  AppendBytes(hello.nonce, bytes);
  return bytes;
}

std::string Encode(const Challenge& challenge) {
  std::string bytes;
  AppendBytes(challenge.magic, bytes);
  AppendBytes(challenge.version, bytes);
  AppendBytes(challenge.least, bytes);
  AppendBytes(kPadding, bytes);
  AppendBytes(challenge.nonce, bytes);
  return bytes;
}

Result<Hello> ParseHello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Hello hello;
  hello.magic = reader.Take<std::array<char, 8>>();
  hello.version = reader.Take<std::uint16_t>();
  hello.channel = reader.TakeEnum(Channel::kTls);
  TFOS_RETURN_IF_ERROR(Checked(reader, "what the other end said first"));
  hello.numbers = reader.Take<Numbers>();
  hello.nonce = reader.Take<Nonce>();
  return hello;
}

Result<Challenge> ParseChallenge(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Challenge challenge;
  challenge.magic = reader.Take<std::array<char, 8>>();
  challenge.version = reader.Take<std::uint16_t>();
  challenge.least = reader.TakeEnum(Channel::kTls);
  TFOS_RETURN_IF_ERROR(Checked(reader, "what the other end answered"));
  challenge.nonce = reader.Take<Nonce>();
  return challenge;
}

Digest Transcript::Proof(const Secret& key, std::string_view role) const {
  return HmacSha256(key, Words(*this, role));
}

Secret Transcript::ConnectionKey(const Secret& key) const {
  return DeriveSecret(key, Words(*this, "key"));
}

bool SameProof(const Digest& expected, const Digest& given) {
  const auto text = [](const Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  return ConstantTimeEqual(text(expected), text(given));
}

}  // namespace tfos::net
