#include "net/tls_stream.h"

#include <dlfcn.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace tfos::net {
namespace {

/// Tells no secret: both ends have one key for the connection.
constexpr std::string_view kIdentity = "tfos";
/// TLS_AES_128_GCM_SHA256, as keys of 32 bytes go with SHA-256.
constexpr unsigned char kCipherSuite[] = {0x13, 0x01};
constexpr char kCipherSuiteName[] = "TLS_AES_128_GCM_SHA256";

/// What OpenSSL has to say about what just failed.
std::string Reason() {
  const unsigned long error = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (error == 0) return "no reason given";
  const char* const reason = ::ERR_reason_error_string(error);
  return reason == nullptr ? fmt::format("error {:x}", error) : reason;
}

/// Other libraries of a process may have functions with the names of OpenSSL's that do not fit:
/// TensorFlow's are for all who are loaded after it.
Status CheckLibrary() {
  Dl_info ssl{};
  Dl_info own{};
  ::dladdr(reinterpret_cast<void*>(&::SSL_new), &ssl);
  ::dladdr(reinterpret_cast<void*>(&CheckLibrary), &own);
  const std::string_view found = ssl.dli_fname == nullptr ? "" : ssl.dli_fname;
  const bool linked_in = own.dli_fname != nullptr && found == own.dli_fname;
  if (linked_in || found.find("libssl.so") != std::string_view::npos) return {};
  return {ErrorKind::kUnsupported,
          fmt::format("TLS needs OpenSSL, and in this process its functions come from {}: import "
                      "tfos before tensorflow",
                      found)};
}

Status CantBegin() { return {ErrorKind::kUnsupported, "begin TLS: " + Reason()}; }

// OpenSSL's own access to sockets raises SIGPIPE.

int WriteSocket(BIO* bio, const char* data, int size) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
  ::BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    ::BIO_set_retry_write(bio);
  }
  return static_cast<int>(sent);
}

int ReadSocket(BIO* bio, char* space, int size) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
  ::BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd, space, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    ::BIO_set_retry_read(bio);
  }
  if (got == 0) ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long ControlSocket(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default:
      return 0;
  }
}

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};
struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};

/// The table of functions for all streams of the process, made at first use and never freed:
/// streams refer to it to their end.
BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    std::unique_ptr<BIO_METHOD, FreeMethod> made(
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tfos socket"));
    const bool complete = made != nullptr && ::BIO_meth_set_write(made.get(), WriteSocket) == 1 &&
                          ::BIO_meth_set_read(made.get(), ReadSocket) == 1 &&
                          ::BIO_meth_set_ctrl(made.get(), ControlSocket) == 1;
    return complete ? made.release() : nullptr;
  }();
  return method;
}

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

}  // namespace

void TlsStream::Deleter::operator()(ssl_st* ssl) const { ::SSL_free(ssl); }

TlsStream::TlsStream(UniqueFd socket, std::unique_ptr<ssl_st, Deleter> ssl, const Secret& key,
                     std::uint64_t bytes_per_key)
    : Stream(std::move(socket)), ssl_(std::move(ssl)), key_(key), bytes_per_key_(bytes_per_key) {
  SSL_set_app_data(ssl_.get(), const_cast<Secret*>(&key_));
}

TlsStream::~TlsStream() = default;

Result<std::unique_ptr<TlsStream>> TlsStream::Open(UniqueFd socket, Side side, const Secret& key,
                                                   const Wait& wait, std::uint64_t bytes_per_key) {
  TFOS_RETURN_IF_ERROR(CheckLibrary());
  ::ERR_clear_error();
  const bool connecting = side == Side::kConnecting;
  const std::unique_ptr<SSL_CTX, FreeContext> context(
      ::SSL_CTX_new(connecting ? ::TLS_client_method() : ::TLS_server_method()));
  if (context == nullptr || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context.get(), kCipherSuiteName) != 1 ||
      ::SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    return CantBegin();
  }
  ::SSL_CTX_set_psk_use_session_callback(context.get(), UseKey);
  ::SSL_CTX_set_psk_find_session_callback(context.get(), FindKey);
  // A member that dies says no goodbye; that it has left it says in its protocol.
  ::SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // To a server without the key a client would offer to look at a certificate: none is good.
  if (connecting) ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  std::unique_ptr<ssl_st, Deleter> ssl(::SSL_new(context.get()));
  BIO* const bio =
      ssl == nullptr || SocketMethod() == nullptr ? nullptr : ::BIO_new(SocketMethod());
  if (bio == nullptr) return CantBegin();
  ::BIO_set_data(bio, reinterpret_cast<void*>(std::intptr_t{socket.get()}));
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl.get(), bio, bio);  // Which owns it now.
  if (connecting) {
    ::SSL_set_connect_state(ssl.get());
  } else {
    ::SSL_set_accept_state(ssl.get());
  }
  // A record in one call of the system. Not more: OpenSSL moves what is left after each.
  ::SSL_set_read_ahead(ssl.get(), 1);
  std::unique_ptr<TlsStream> stream(
      new TlsStream(std::move(socket), std::move(ssl), key, bytes_per_key));
  TFOS_RETURN_IF_ERROR(stream->ShakeHands(wait));
  return stream;
}

Status TlsStream::ShakeHands(const Wait& wait) {
  while (true) {
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_.get());
    if (done == 1) break;
    const int error = ::SSL_get_error(ssl_.get(), done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      if (error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL) {
        return {ErrorKind::kReconnect, "the other end closed the connection before TLS began"};
      }
      return {ErrorKind::kBadInput, "TLS with the other end failed: " + Reason()};
    }
    TFOS_ASSIGN_OR_RETURN(const short ready,
                          Poll(fd(), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, wait));
    if (ready == 0) return {ErrorKind::kRetryLater, "no TLS within the deadline"};
  }
  if (::SSL_session_reused(ssl_.get()) != 1) {
    return {ErrorKind::kBadInput, "the other end did not use the connection's key for TLS"};
  }
  return {};
}

Result<Transfer> TlsStream::Send(std::span<const std::byte> first,
                                 std::span<const std::byte> second) {
  if (unfinished_ == 0 && sent_ >= bytes_per_key_) {
    ::ERR_clear_error();
    if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      return Status(ErrorKind::kBug, "take another key for TLS: " + Reason());
    }
    sent_ = 0;
  }
  // As one piece for one record. What was blocked is given once more.
  const std::size_t size =
      unfinished_ > 0 ? unfinished_ : std::min(first.size() + second.size(), kRecordBytes);
  std::span<const std::byte> record = second.first(std::min(second.size(), size));
  if (!first.empty()) {
    const std::size_t of_first = std::min(first.size(), size);
    std::memcpy(record_, first.data(), of_first);
    if (size > of_first) std::memcpy(record_ + of_first, second.data(), size - of_first);
    record = std::span(record_, size);
  }
  ::ERR_clear_error();
  std::size_t written = 0;
  if (::SSL_write_ex(ssl_.get(), record.data(), record.size(), &written) == 1) {
    unfinished_ = 0;
    sent_ += written;
    return Transfer{.bytes = written};
  }
  const int saved = errno;
  switch (::SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_WRITE:
    case SSL_ERROR_WANT_READ:
      unfinished_ = size;
      return Transfer{.blocked = true};
    case SSL_ERROR_SYSCALL:
      return Status::FromErrno(saved, "send");
    default:
      return Status(ErrorKind::kReconnect, "send over TLS: " + Reason());
  }
}

Result<Transfer> TlsStream::Receive(std::span<std::byte> space) {
  ::ERR_clear_error();
  std::size_t got = 0;
  if (::SSL_read_ex(ssl_.get(), space.data(), space.size(), &got) == 1) {
    return Transfer{.bytes = got};
  }
  const int saved = errno;
  switch (::SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
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
