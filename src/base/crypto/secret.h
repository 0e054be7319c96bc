#ifndef TFOS_BASE_CRYPTO_SECRET_H_
#define TFOS_BASE_CRYPTO_SECRET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos {

/// The shared secret of one cluster: 256 random bits. Everything that connects to a port or socket
/// of the cluster proves that it knows it.
///
/// Owner and lifetime: a value; its bytes are overwritten when it goes. It has no formatter on
/// purpose: a secret must not reach a log.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  static Result<Secret> Generate();
  /// From 64 hexadecimal digits; anything else is bad input, and the message does not repeat it.
  static Result<Secret> FromHex(std::string_view hex);

  /// Zeros, for a place that gets one later.
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  std::string ToHex() const;
  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  friend Secret DeriveSecret(const Secret& secret, std::string_view message);

  std::array<std::uint8_t, kBytes> bytes_{};
};

using Digest = std::array<std::uint8_t, 32>;

/// HMAC-SHA256 (RFC 2104, FIPS 180-4) of `message` under `secret`. Ends the process when OpenSSL
/// can't compute it: there is no safe digest to go on with.
Digest HmacSha256(const Secret& secret, std::string_view message);

/// A secret for the purpose that `message` names. Only a holder of `secret` can derive it.
Secret DeriveSecret(const Secret& secret, std::string_view message);

/// Compares without revealing through its run time where the inputs differ.
bool ConstantTimeEqual(std::string_view a, std::string_view b);

/// `count` random bytes from the operating system, as lower-case hexadecimal digits.
Result<std::string> RandomHex(std::size_t count);

}  // namespace tfos

#endif  // TFOS_BASE_CRYPTO_SECRET_H_
