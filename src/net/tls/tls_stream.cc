#include "net/tls/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/crypto/openssl.h"
#include "base/format.h"
#include "net/poll.h"

namespace tfos::net {
namespace {

/// Tells no secret: both ends have one key for the connection.
constexpr std::string_view kIdentity = "tfos";
/// TLS_AES_128_GCM_SHA256, as keys of 32 bytes go with SHA-256.
constexpr unsigned char kCipherSuite[] = {0x13, 0x01};
constexpr char kCipherSuiteName[] = "TLS_AES_128_GCM_SHA256";

/// A record with a ClientHello. OpenSSL's have 300 bytes, and 1,600 with keys for ML-KEM.
constexpr std::size_t kMostHelloBytes = 4096;

/// A KeyUpdate (RFC 8446, 4.6.3) that asks for none in return.
constexpr std::array kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                                   std::byte{0}};
/// A warning of no meaning, and that the connection ends (RFC 8446, 6.1).
constexpr std::array kCloseNotify = {std::byte{1}, std::byte{0}};

/// What OpenSSL says about what just failed.
std::string Reason() {
  const unsigned long error = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (error == 0) return "no reason given";
  const char* const reason = ::ERR_reason_error_string(error);
  return reason == nullptr ? fmt::format("error {:x}", error) : reason;
}

Status ClosedBefore() {
  return {ErrorKind::kReconnect, "the other end closed the connection before TLS began"};
}

Status NoKey() {
  return {ErrorKind::kBadInput, "the other end did not use the connection's key for TLS"};
}

Status CantBegin() { return {ErrorKind::kUnsupported, "begin TLS: " + Reason()}; }

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};

/// A session that was never held, made of the key: what TLS 1.3 calls an external pre-shared key.
SSL_SESSION* SessionOf(SSL* ssl) {
  const Secret& key = static_cast<const TlsSecrets*>(SSL_get_app_data(ssl))->key;
  SSL_SESSION* const session = ::SSL_SESSION_new();
  const SSL_CIPHER* const cipher = ::SSL_CIPHER_find(ssl, kCipherSuite);
  if (session != nullptr && cipher != nullptr &&
      ::SSL_SESSION_set1_master_key(session, key.bytes().data(), key.bytes().size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  ::SSL_SESSION_free(session);
  return nullptr;
}

int UseKey(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity, std::size_t* size,
           SSL_SESSION** session) {
  *session = SessionOf(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int FindKey(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const std::string_view given(reinterpret_cast<const char*>(identity), size);
  *session = given == kIdentity ? SessionOf(ssl) : nullptr;
  return 1;  // Without a session TLS goes on, and fails for want of a certificate.
}

/// OpenSSL says each secret of the handshake once: `LABEL random secret`.
void KeepSecret(const SSL* ssl, const char* line) {
  auto& secrets = *static_cast<TlsSecrets*>(SSL_get_app_data(ssl));
  const std::string_view text(line);
  const auto keep = [text](std::string_view label, std::optional<Secret>& to) {
    if (!text.starts_with(label) || text[label.size()] != ' ') return;
    if (auto secret = Secret::FromHex(text.substr(text.rfind(' ') + 1)); secret.ok()) to = *secret;
  };
  keep("CLIENT_TRAFFIC_SECRET_0", secrets.connecting);
  keep("SERVER_TRAFFIC_SECRET_0", secrets.accepting);
}

/// What all streams of a process have in common at one side; it holds no key.
Result<SSL_CTX*> MakeContext(bool connecting) {
  StartOpenSsl();
  ::ERR_clear_error();
  std::unique_ptr<SSL_CTX, FreeContext> context(
      ::SSL_CTX_new(connecting ? ::TLS_client_method() : ::TLS_server_method()));
  if (context == nullptr || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context.get(), kCipherSuiteName) != 1 ||
      ::SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    return CantBegin();
  }
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_psk_use_session_callback(context.get(), UseKey);
  ::SSL_CTX_set_psk_find_session_callback(context.get(), FindKey);
  ::SSL_CTX_set_keylog_callback(context.get(), KeepSecret);
  // A member that dies says no goodbye; that it has left it says in its protocol.
  ::SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
  // To a server without the key a client would offer to look at a certificate: none is good.
  if (connecting) ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context.release();
}

/// Made at first use and never freed: streams refer to it to their end.
Result<SSL_CTX*> ContextOf(TlsStream::Side side) {
  static const Result<SSL_CTX*> connecting = MakeContext(true);
  static const Result<SSL_CTX*> accepting = MakeContext(false);
  return side == TlsStream::Side::kConnecting ? connecting : accepting;
}

}  // namespace

void TlsStream::Deleter::operator()(ssl_st* ssl) const { ::SSL_free(ssl); }

TlsStream::TlsStream(UniqueFd socket, const Secret& key, const Options& options)
    : Stream(std::move(socket)),
      wire_(fd(), std::min(options.batch_bytes, TlsWire::kFirstBytes)),
      secrets_{.key = key, .connecting = {}, .accepting = {}},
      options_(options) {}

TlsStream::~TlsStream() = default;

Result<std::unique_ptr<TlsStream>> TlsStream::Begin(UniqueFd socket, Side side, const Secret& key,
                                                    const Options& options) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), key, options));
  TFOS_RETURN_IF_ERROR(stream->wire_.failure());
  // The accepting end waits for the other one's first words: that may be anybody, and OpenSSL takes
  // some 40 KB for it.
  if (side == Side::kConnecting) TFOS_RETURN_IF_ERROR(stream->BeginOpenSsl(side));
  return stream;
}

Status TlsStream::BeginOpenSsl(Side side) {
  TFOS_ASSIGN_OR_RETURN(SSL_CTX* const context, ContextOf(side));
  ::ERR_clear_error();
  ssl_.reset(::SSL_new(context));
  if (ssl_ == nullptr) return CantBegin();
  SSL_set_app_data(ssl_.get(), &secrets_);
  if (side == Side::kConnecting) {
    ::SSL_set_connect_state(ssl_.get());
  } else {
    ::SSL_set_accept_state(ssl_.get());
  }
  BIO* const bio = wire_.MakeBio();
  if (bio == nullptr) return CantBegin();
  ::SSL_set_bio(ssl_.get(), bio, bio);  // Which owns it now.
  return {};
}

Result<bool> TlsStream::HasClientHello() {
  while (true) {
    const auto input = wire_.input();
    std::size_t wanted = kRecordHeadBytes;
    if (input.size() >= kRecordHeadBytes) {
      wanted += RecordBodyBytes(input.first<kRecordHeadBytes>());
      if (static_cast<RecordType>(input[0]) != RecordType::kHandshake || wanted > kMostHelloBytes) {
        return Status(ErrorKind::kBadInput, "the other end does not begin with TLS as tfos does");
      }
      if (input.size() >= wanted) return true;
    }
    TFOS_ASSIGN_OR_RETURN(const Transfer got, wire_.Fill(wanted));
    if (got.blocked) return false;
    if (got.ended) return ClosedBefore();
  }
}

Result<std::unique_ptr<TlsStream>> TlsStream::Open(UniqueFd socket, Side side, const Secret& key,
                                                   const Wait& wait, const Options& options) {
  TFOS_ASSIGN_OR_RETURN(auto stream, Begin(std::move(socket), side, key, options));
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const Progress progress, stream->ShakeHands());
    if (progress == Progress::kDone) return stream;
    const short event = progress == Progress::kReading ? POLLIN : POLLOUT;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(stream->fd(), event, wait));
    if (ready == 0) return Status(ErrorKind::kRetryLater, "no TLS within the deadline");
  }
}

Result<TlsStream::Progress> TlsStream::ShakeHands() {
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const bool flushed, wire_.Flush());
    if (!flushed) return Progress::kWriting;
    if (seal_) return Progress::kDone;
    if (handshake_done_) {
      TFOS_RETURN_IF_ERROR(BeginRecords());
      continue;
    }
    if (ssl_ == nullptr) {
      TFOS_ASSIGN_OR_RETURN(const bool here, HasClientHello());
      if (!here) return Progress::kReading;
      TFOS_RETURN_IF_ERROR(BeginOpenSsl(Side::kAccepting));
    }
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_.get());
    const int error = done == 1 ? SSL_ERROR_NONE : ::SSL_get_error(ssl_.get(), done);
    handshake_done_ = done == 1;
    if (handshake_done_) continue;  // To send the last of it.
    if (Status below = wire_.failure(); !below.ok() && below.kind() == ErrorKind::kNoResources) {
      return below;
    }
    if (error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL) {
      return ClosedBefore();
    }
    if (error != SSL_ERROR_WANT_READ) {
      const std::string reason = Reason();
      static_cast<void>(wire_.Flush().ok());  // The other end learns it if it can be told.
      return Status(ErrorKind::kBadInput, "TLS with the other end failed: " + reason);
    }
    if (wire_.holds_output()) continue;
    // A ClientHello proves the key (RFC 8446, 4.2.11.2). For others nothing is kept.
    if (::SSL_is_server(ssl_.get()) != 0 && ::SSL_session_reused(ssl_.get()) != 1) return NoKey();
    return Progress::kReading;
  }
}

Status TlsStream::BeginRecords() {
  if (::SSL_session_reused(ssl_.get()) != 1) return NoKey();
  if (!secrets_.connecting || !secrets_.accepting || ::SSL_has_pending(ssl_.get()) != 0) {
    return {ErrorKind::kBug, "OpenSSL's handshake left no keys, or took more than the handshake"};
  }
  TFOS_RETURN_IF_ERROR(wire_.Widen(options_.batch_bytes));
  const bool connecting = ::SSL_is_server(ssl_.get()) == 0;
  const Secret& ours = connecting ? *secrets_.connecting : *secrets_.accepting;
  const Secret& theirs = connecting ? *secrets_.accepting : *secrets_.connecting;
  TFOS_ASSIGN_OR_RETURN(open_, RecordKey::Create(RecordKey::Use::kOpen, theirs));
  TFOS_ASSIGN_OR_RETURN(seal_, RecordKey::Create(RecordKey::Use::kSeal, ours));
  ssl_.reset();
  secrets_.connecting.reset();
  secrets_.accepting.reset();
  return {};
}

Status TlsStream::MakeRecord(RecordType type, std::span<const std::byte> first,
                             std::span<const std::byte> second) {
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room,
                        wire_.Append(RecordBytes(first.size() + second.size())));
  return seal_->Seal(type, first, second, room);
}

Status TlsStream::Encrypt(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (sent_ >= options_.bytes_per_key) {
    TFOS_RETURN_IF_ERROR(MakeRecord(RecordType::kHandshake, kKeyUpdate, {}));
    TFOS_RETURN_IF_ERROR(seal_->Update());
    sent_ = 0;
  }
  // Whole records where the batch has room for some.
  const std::size_t records = options_.batch_bytes / RecordBytes(kMostRecordDataBytes);
  const std::size_t batch =
      records > 0 ? records * kMostRecordDataBytes : std::max<std::size_t>(options_.batch_bytes, 1);
  while (encrypted_ < batch && !(first.empty() && second.empty())) {
    const std::size_t most = std::min(kMostRecordDataBytes, batch - encrypted_);
    const auto head = first.first(std::min(first.size(), most));
    const auto data = second.first(std::min(second.size(), most - head.size()));
    TFOS_RETURN_IF_ERROR(MakeRecord(RecordType::kData, head, data));
    first = first.subspan(head.size());
    second = second.subspan(data.size());
    encrypted_ += head.size() + data.size();
    sent_ += RecordBytes(head.size() + data.size());
  }
  return {};
}

Result<Transfer> TlsStream::Send(std::span<const std::byte> first,
                                 std::span<const std::byte> second) {
  // What was blocked is given once more.
  if (encrypted_ == 0 && send_failure_.ok()) send_failure_ = Encrypt(first, second);
  TFOS_RETURN_IF_ERROR(send_failure_);
  TFOS_ASSIGN_OR_RETURN(const bool flushed, wire_.Flush());
  if (!flushed) return Transfer{.blocked = true};
  return Transfer{.bytes = std::exchange(encrypted_, 0)};
}

Result<Transfer> TlsStream::EndSending() {
  if (!std::exchange(says_goodbye_, true) && send_failure_.ok()) {
    send_failure_ = MakeRecord(RecordType::kAlert, kCloseNotify, {});
  }
  TFOS_RETURN_IF_ERROR(send_failure_);
  TFOS_ASSIGN_OR_RETURN(const bool flushed, wire_.Flush());
  if (!flushed) return Transfer{.blocked = true};
  return Stream::EndSending();
}

Result<std::size_t> TlsStream::NextRecord() const {
  const auto input = wire_.input();
  if (input.size() < kRecordHeadBytes) return kRecordHeadBytes;
  const std::size_t body = RecordBodyBytes(input.first<kRecordHeadBytes>());
  // At least the type.
  if (body > kRecordTagBytes && body <= kMostRecordBodyBytes) return kRecordHeadBytes + body;
  return Status(ErrorKind::kBadInput, fmt::format("a record of TLS of {} bytes", body));
}

std::size_t TlsStream::TakeHeld(std::span<std::byte> space) {
  const std::size_t bytes = std::min(space.size(), held_.size());
  std::ranges::copy(held_.first(bytes), space.begin());
  held_ = held_.subspan(bytes);
  return bytes;
}

Result<std::size_t> TlsStream::TakeRecord(std::span<const std::byte> record,
                                          std::span<std::byte> space) {
  const std::size_t in_room = RecordKey::RoomFor(record.size());
  std::array<std::byte, kRecordLineBytes> rest;
  const bool direct = in_room <= space.size();
  if (!direct) record_.resize(in_room + rest.size());
  const std::span<std::byte> room = (direct ? space : std::span(record_)).first(in_room);
  TFOS_ASSIGN_OR_RETURN(const RecordKey::Opened opened, open_->Open(record, room, rest));
  const std::size_t in_rest = opened.bytes - std::min(opened.bytes, in_room);
  if (opened.type != RecordType::kData) {
    // What this knows is short.
    TFOS_RETURN_IF_ERROR(OnControl(
        opened.type, in_room > 0 ? std::span<std::byte>() : std::span(rest).first(in_rest)));
    return std::size_t{0};
  }
  if (!direct) {
    std::ranges::copy(std::span(rest).first(in_rest),
                      record_.begin() + static_cast<std::ptrdiff_t>(in_room));
    held_ = std::span(record_).first(opened.bytes);
    return TakeHeld(space);
  }
  if (in_rest == 0) return opened.bytes;
  record_.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(in_rest));
  held_ = record_;
  return in_room + TakeHeld(space.subspan(in_room));
}

Status TlsStream::OnControl(RecordType type, std::span<const std::byte> content) {
  if (type == RecordType::kHandshake && std::ranges::equal(content, kKeyUpdate)) {
    return open_->Update();
  }
  if (type == RecordType::kAlert && std::ranges::equal(content, kCloseNotify)) {
    ended_ = said_goodbye_ = true;
    return {};
  }
  return {ErrorKind::kBadInput, fmt::format("the other end said something of type {} about TLS, "
                                            "which no tfos says",
                                            static_cast<int>(type))};
}

Result<Transfer> TlsStream::Receive(std::span<std::byte> space) {
  TFOS_RETURN_IF_ERROR(receive_failure_);
  auto received = ReceiveRecords(space);
  if (!received.ok()) receive_failure_ = received.status();
  return received;
}

Result<Transfer> TlsStream::ReceiveRecords(std::span<std::byte> space) {
  drained_ = false;
  std::size_t got = TakeHeld(space);
  while (got < space.size() && !ended_) {
    TFOS_ASSIGN_OR_RETURN(const std::size_t bytes, NextRecord());
    if (bytes <= wire_.input().size() && bytes > kRecordHeadBytes) {
      TFOS_ASSIGN_OR_RETURN(const std::size_t taken,
                            TakeRecord(wire_.input().first(bytes), space.subspan(got)));
      wire_.Take(bytes);
      got += taken;
      continue;
    }
    if (got > 0) break;  // The socket may have more.
    TFOS_ASSIGN_OR_RETURN(const Transfer filled, wire_.Fill(bytes));
    if (filled.blocked) {
      drained_ = true;
      return filled;
    }
    ended_ = filled.ended;
  }
  return Transfer{.bytes = got, .ended = ended_ && got == 0};
}

}  // namespace tfos::net
