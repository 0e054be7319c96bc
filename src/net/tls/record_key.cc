#include "net/tls/record_key.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace tfos::net {
namespace {

constexpr std::size_t kKeyBytes = 16;
/// The first bytes of a record of TLS 1.2, with which all of TLS 1.3 begin, too.
constexpr std::byte kHead[] = {std::byte{23}, std::byte{3}, std::byte{3}};
constexpr std::byte kZeros[kRecordLineBytes] = {};

/// HKDF-Expand-Label without a context (RFC 8446, 7.1), for what is no longer than a digest.
std::string ExpandText(std::string_view label, std::size_t bytes) {
  std::string text = {'\0', static_cast<char>(bytes)};
  const std::string whole = "tls13 " + std::string(label);
  text += static_cast<char>(whole.size());
  text += whole;
  text += '\0';
  text += '\1';  // The first block of HKDF-Expand (RFC 5869, 2.3).
  return text;
}

const unsigned char* In(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

unsigned char* Out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

Status Unexpected() { return {ErrorKind::kBug, "OpenSSL's cipher failed"}; }

}  // namespace

std::size_t RecordBytes(std::size_t data_bytes) {
  const std::size_t least = kRecordHeadBytes + data_bytes + sizeof(RecordType) + kRecordTagBytes;
  return (least + kRecordLineBytes - 1) / kRecordLineBytes * kRecordLineBytes;
}

void RecordKey::Free::operator()(evp_cipher_ctx_st* context) const {
  ::EVP_CIPHER_CTX_free(context);
}

Result<RecordKey> RecordKey::Create(Use use, const Secret& secret) {
  RecordKey key(use, secret);
  key.context_.reset(::EVP_CIPHER_CTX_new());
  TFOS_RETURN_IF_ERROR(key.Derive());
  return key;
}

Status RecordKey::Derive() {
  const Digest key = HmacSha256(secret_, ExpandText("key", kKeyBytes));
  const Digest nonce = HmacSha256(secret_, ExpandText("iv", kNonceBytes));
  std::copy_n(nonce.begin(), kNonceBytes, first_nonce_.begin());
  sequence_ = 0;
  const int seals = use_ == Use::kSeal ? 1 : 0;
  if (context_ != nullptr && ::EVP_CipherInit_ex(context_.get(), ::EVP_aes_128_gcm(), nullptr,
                                                 key.data(), first_nonce_.data(), seals) == 1) {
    return {};
  }
  return {ErrorKind::kUnsupported, "OpenSSL has no AES-128-GCM"};
}

Status RecordKey::Update() {
  secret_ = DeriveSecret(secret_, ExpandText("traffic upd", Secret::kBytes));
  return Derive();
}

bool RecordKey::BeginRecord(std::span<const std::byte> head) {
  std::array<std::uint8_t, kNonceBytes> nonce = first_nonce_;
  for (std::size_t i = 0; i < sizeof(sequence_); ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<std::uint8_t>(sequence_ >> (8 * i));
  }
  ++sequence_;
  int none = 0;
  return ::EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         ::EVP_CipherUpdate(context_.get(), nullptr, &none, In(head),
                            static_cast<int>(head.size())) == 1;
}

Status RecordKey::Seal(RecordType type, std::span<const std::byte> first,
                       std::span<const std::byte> second, std::span<std::byte> record) {
  const std::size_t body = record.size() - kRecordHeadBytes;
  std::ranges::copy(kHead, record.begin());
  record[3] = static_cast<std::byte>(body >> 8);
  record[4] = static_cast<std::byte>(body);
  if (!BeginRecord(record.first(kRecordHeadBytes))) return Unexpected();
  std::span<std::byte> room = record.subspan(kRecordHeadBytes);
  const auto add = [&](std::span<const std::byte> data) {
    int added = 0;
    const bool done =
        data.empty() || ::EVP_CipherUpdate(context_.get(), Out(room), &added, In(data),
                                           static_cast<int>(data.size())) == 1;
    room = room.subspan(static_cast<std::size_t>(added));
    return done;
  };
  const auto content = static_cast<std::byte>(type);
  const std::size_t padding =
      body - first.size() - second.size() - sizeof(content) - kRecordTagBytes;
  int none = 0;
  if (!add(first) || !add(second) || !add(std::span(&content, 1)) ||
      !add(std::span(kZeros).first(padding)) ||
      ::EVP_CipherFinal_ex(context_.get(), Out(room), &none) != 1 ||
      ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, Out(room)) !=
          1) {
    return Unexpected();
  }
  return {};
}

Result<RecordKey::Opened> RecordKey::Open(std::span<const std::byte> record,
                                          std::span<std::byte> room,
                                          std::span<std::byte, kRecordLineBytes> rest) {
  const auto head = record.first(kRecordHeadBytes);
  const auto tag = record.last(kRecordTagBytes);
  const auto inner =
      record.subspan(kRecordHeadBytes, record.size() - kRecordHeadBytes - kRecordTagBytes);
  const std::size_t in_room = RoomFor(record.size());
  const std::size_t in_rest = inner.size() - in_room;
  int got = 0;
  if (!std::ranges::equal(kHead, head.first(std::size(kHead))) || !BeginRecord(head) ||
      (in_room > 0 && ::EVP_CipherUpdate(context_.get(), Out(room), &got, In(inner),
                                         static_cast<int>(in_room)) != 1) ||
      ::EVP_CipherUpdate(context_.get(), Out(rest), &got, In(inner.subspan(in_room)),
                         static_cast<int>(in_rest)) != 1 ||
      ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes,
                            const_cast<unsigned char*>(In(tag))) != 1 ||
      ::EVP_CipherFinal_ex(context_.get(), Out(rest), &got) != 1) {
    return Status(ErrorKind::kBadInput,
                  "a record of TLS is not what the other end sent: somebody has changed it");
  }
  // Zeros fill it up behind the type.
  std::size_t bytes = inner.size();
  const auto at = [&](std::size_t place) {
    return place < in_room ? room[place] : rest[place - in_room];
  };
  while (bytes > 0 && at(bytes - 1) == std::byte{0}) --bytes;
  if (bytes == 0) return Status(ErrorKind::kBadInput, "a record of TLS without a type");
  const auto type = static_cast<RecordType>(at(bytes - 1));
  return Opened{.type = type, .bytes = bytes - 1};
}

}  // namespace tfos::net
