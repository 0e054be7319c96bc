#include "base/crypto/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/crypto/openssl.h"

namespace tfos {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string Hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

Status FillRandom(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return Status::FromErrno(errno, "get random bytes");
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Result<Secret> Secret::Generate() {
  Secret secret;
  TFOS_RETURN_IF_ERROR(FillRandom(secret.bytes_));
  return secret;
}

Result<Secret> Secret::FromHex(std::string_view hex) {
  const Status malformed(ErrorKind::kBadInput, "a cluster token is 64 hexadecimal digits");
  if (hex.size() != 2 * kBytes) return malformed;
  Secret secret;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return malformed;
    secret.bytes_[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return secret;
}

Secret::~Secret() { ::OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

std::string Secret::ToHex() const { return Hex(bytes_); }

Digest HmacSha256(const Secret& secret, std::string_view message) {
  StartOpenSsl();
  Digest digest{};
  unsigned int size = digest.size();
  const unsigned char* made = ::HMAC(
      EVP_sha256(), secret.bytes().data(), static_cast<int>(secret.bytes().size()),
      reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), &size);
  // Without this every proof would be the same zeros at both ends, and anybody would be let in.
  if (made == nullptr || size != digest.size()) {
    std::fprintf(
        stderr,
        "tfos: OpenSSL could not compute HMAC-SHA256, which every connection is "
        "authenticated with; its configuration (OPENSSL_CONF) or memory limits forbid it\n");
    std::abort();
  }
  return digest;
}

Secret DeriveSecret(const Secret& secret, std::string_view message) {
  Secret derived;
  derived.bytes_ = HmacSha256(secret, message);
  return derived;
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> RandomHex(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  TFOS_RETURN_IF_ERROR(FillRandom(bytes));
  return Hex(bytes);
}

}  // namespace tfos
