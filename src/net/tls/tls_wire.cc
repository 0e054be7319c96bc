#include "net/tls/tls_wire.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket.h"

namespace tfos::net {
namespace {

/// For what records have around them, in a batch.
constexpr std::size_t kAround = std::size_t{4} << 10;

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};

}  // namespace

/// What OpenSSL calls. Its own access to sockets raises SIGPIPE, too.
struct TlsWireBio {
  static TlsWire& WireOf(BIO* bio) { return *static_cast<TlsWire*>(::BIO_get_data(bio)); }

  static int Write(BIO* bio, const char* data, int size) {
    ::BIO_clear_retry_flags(bio);
    const auto bytes = std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
    std::vector<std::byte>& out = WireOf(bio).out_;
    out.insert(out.end(), bytes.begin(), bytes.end());
    return size;
  }

  static int Read(BIO* bio, char* space, int size) {
    TlsWire& wire = WireOf(bio);
    ::BIO_clear_retry_flags(bio);
    if (wire.unread_.empty()) {
      const ssize_t got = ::recv(wire.socket_, wire.in_.get(), wire.batch_bytes_, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        ::BIO_set_retry_read(bio);
      }
      if (got == 0) ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
      if (got <= 0) return static_cast<int>(got);
      wire.unread_ = {wire.in_.get(), static_cast<std::size_t>(got)};
    }
    const std::size_t bytes = std::min(wire.unread_.size(), static_cast<std::size_t>(size));
    std::memcpy(space, wire.unread_.data(), bytes);
    wire.unread_ = wire.unread_.subspan(bytes);
    return static_cast<int>(bytes);
  }

  static long Control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
    switch (command) {
      case BIO_CTRL_FLUSH:
        return 1;
      case BIO_CTRL_EOF:
        return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
      default:
        return 0;
    }
  }

  /// The table of functions for all streams of the process, made at first use and never freed:
  /// streams refer to it to their end.
  static BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      std::unique_ptr<BIO_METHOD, FreeMethod> made(
          ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tfos wire"));
      const bool complete = made != nullptr && ::BIO_meth_set_write(made.get(), Write) == 1 &&
                            ::BIO_meth_set_read(made.get(), Read) == 1 &&
                            ::BIO_meth_set_ctrl(made.get(), Control) == 1;
      return complete ? made.release() : nullptr;
    }();
    return method;
  }
};

TlsWire::TlsWire(int socket, std::size_t batch_bytes)
    : socket_(socket),
      batch_bytes_(batch_bytes),
      in_(std::make_unique_for_overwrite<std::byte[]>(batch_bytes)) {
  out_.reserve(batch_bytes + kAround);
}

bio_st* TlsWire::MakeBio() {
  BIO_METHOD* const method = TlsWireBio::Method();
  BIO* const bio = method == nullptr ? nullptr : ::BIO_new(method);
  if (bio == nullptr) return nullptr;
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  return bio;
}

Result<bool> TlsWire::Flush() {
  while (sent_ < out_.size()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer sent, Send(socket_, std::span(out_).subspan(sent_), {}));
    if (sent.blocked) return false;
    sent_ += sent.bytes;
  }
  out_.clear();
  sent_ = 0;
  return true;
}

}  // namespace tfos::net
