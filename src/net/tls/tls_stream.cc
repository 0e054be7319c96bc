#include "net/tls/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/crypto/openssl.h"
#include "base/format.h"

namespace tfos::net {
namespace {

/// Tells no secret: both ends have one key for the connection.
constexpr std::string_view kIdentity = "tfos";
/// TLS_AES_128_GCM_SHA256, as keys of 32 bytes go with SHA-256.
constexpr unsigned char kCipherSuite[] = {0x13, 0x01};
constexpr char kCipherSuiteName[] = "TLS_AES_128_GCM_SHA256";

/// What OpenSSL says about what just failed.
std::string Reason() {
  const unsigned long error = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (error == 0) return "no reason given";
  const char* const reason = ::ERR_reason_error_string(error);
  return reason == nullptr ? fmt::format("error {:x}", error) : reason;
}

Status CantBegin() { return {ErrorKind::kUnsupported, "begin TLS: " + Reason()}; }

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};

/// A session that was never held, made of the key: what TLS 1.3 calls an external pre-shared key.
SSL_SESSION* SessionOf(SSL* ssl) {
  const auto& key = *static_cast<const Secret*>(SSL_get_app_data(ssl));
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

TlsStream::TlsStream(UniqueFd socket, std::unique_ptr<ssl_st, Deleter> ssl, const Secret& key,
                     const Options& options)
    : Stream(std::move(socket)),
      wire_(fd(), options.batch_bytes),
      ssl_(std::move(ssl)),
      key_(key),
      options_(options) {
  SSL_set_app_data(ssl_.get(), const_cast<Secret*>(&key_));
}

TlsStream::~TlsStream() = default;

Result<std::unique_ptr<TlsStream>> TlsStream::Begin(UniqueFd socket, Side side, const Secret& key,
                                                    const Options& options) {
  TFOS_ASSIGN_OR_RETURN(SSL_CTX* const context, ContextOf(side));
  ::ERR_clear_error();
  std::unique_ptr<ssl_st, Deleter> ssl(::SSL_new(context));
  if (ssl == nullptr) return CantBegin();
  if (side == Side::kConnecting) {
    ::SSL_set_connect_state(ssl.get());
  } else {
    ::SSL_set_accept_state(ssl.get());
  }
  std::unique_ptr<TlsStream> stream(
      new TlsStream(std::move(socket), std::move(ssl), key, options));
  BIO* const bio = stream->wire_.MakeBio();
  if (bio == nullptr) return CantBegin();
  ::SSL_set_bio(stream->ssl_.get(), bio, bio);  // Which owns it now.
  return stream;
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
    if (handshake_done_) break;
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_.get());
    const int error = done == 1 ? SSL_ERROR_NONE : ::SSL_get_error(ssl_.get(), done);
    handshake_done_ = done == 1;
    if (handshake_done_) continue;  // To send the last of it.
    if (error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL) {
      return Status(ErrorKind::kReconnect, "the other end closed the connection before TLS began");
    }
    if (error != SSL_ERROR_WANT_READ) {
      const std::string reason = Reason();
      static_cast<void>(wire_.Flush().ok());  // The other end learns it if it can be told.
      return Status(ErrorKind::kBadInput, "TLS with the other end failed: " + reason);
    }
    if (wire_.holds_output()) continue;
    return Progress::kReading;
  }
  if (::SSL_session_reused(ssl_.get()) != 1) {
    return Status(ErrorKind::kBadInput, "the other end did not use the connection's key for TLS");
  }
  return Progress::kDone;
}

Status TlsStream::Write(std::span<const std::byte> data) {
  std::size_t written = 0;
  ::ERR_clear_error();
  // The wire takes all.
  if (data.empty() || ::SSL_write_ex(ssl_.get(), data.data(), data.size(), &written) == 1) {
    encrypted_ += written;
    sent_ += written;
    return {};
  }
  return {ErrorKind::kReconnect, "send over TLS: " + Reason()};
}

Status TlsStream::Encrypt(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (sent_ >= options_.bytes_per_key) {
    ::ERR_clear_error();
    if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      return {ErrorKind::kBug, "take another key for TLS: " + Reason()};
    }
    sent_ = 0;
  }
  first = first.first(std::min(first.size(), options_.batch_bytes));
  // What comes first is short: no record for it alone.
  const std::size_t rest = first.size() % kRecordBytes;
  TFOS_RETURN_IF_ERROR(Write(first.first(first.size() - rest)));
  if (rest > 0) {
    const std::size_t of_second = std::min(second.size(), kRecordBytes - rest);
    std::memcpy(record_, first.last(rest).data(), rest);
    if (of_second > 0) std::memcpy(record_ + rest, second.data(), of_second);
    TFOS_RETURN_IF_ERROR(Write(std::span(record_, rest + of_second)));
    second = second.subspan(of_second);
  }
  return Write(second.first(std::min(second.size(), options_.batch_bytes - encrypted_)));
}

Result<Transfer> TlsStream::Send(std::span<const std::byte> first,
                                 std::span<const std::byte> second) {
  // What was blocked is given once more.
  if (encrypted_ == 0) TFOS_RETURN_IF_ERROR(Encrypt(first, second));
  TFOS_ASSIGN_OR_RETURN(const bool flushed, wire_.Flush());
  if (!flushed) return Transfer{.blocked = true};
  return Transfer{.bytes = std::exchange(encrypted_, 0)};
}

Result<Transfer> TlsStream::Receive(std::span<std::byte> space) {
  ::ERR_clear_error();
  std::size_t got = 0;
  drained_ = false;
  if (::SSL_read_ex(ssl_.get(), space.data(), space.size(), &got) == 1) {
    return Transfer{.bytes = got};
  }
  const int saved = errno;
  switch (::SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
      drained_ = true;
      return Transfer{.blocked = true};
    case SSL_ERROR_ZERO_RETURN:
      return Transfer{.ended = true};
    case SSL_ERROR_SYSCALL:
      if (saved == 0) return Transfer{.ended = true};
      return Status::FromErrno(saved, "receive");
    default:
      return Status(ErrorKind::kBadInput, "receive over TLS: " + Reason());
  }
}

}  // namespace tfos::net
