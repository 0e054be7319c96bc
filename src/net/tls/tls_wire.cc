#include "net/tls/tls_wire.h"

#include <openssl/bio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/format.h"
#include "base/thread/guarded.h"

namespace tfos::net {
namespace {

Status NoMemory(std::size_t bytes) {
  return {ErrorKind::kNoResources, fmt::format("no memory for {} bytes of TLS", bytes)};
}

/// A buffer of `size` bytes, which begins with those of `from` between `begin` and `end`.
Result<AlignedBuffer> Grown(const AlignedBuffer& from, std::size_t begin, std::size_t end,
                            std::size_t size) {
  AlignedBuffer grown(size);
  if (grown.size() == 0) return NoMemory(size);
  std::ranges::copy(from.bytes().subspan(begin, end - begin), grown.bytes().begin());
  return grown;
}

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};

}  // namespace

/// What OpenSSL calls. Its own access to sockets raises SIGPIPE, too.
struct TlsWireBio {
  static TlsWire& WireOf(BIO* bio) { return *static_cast<TlsWire*>(::BIO_get_data(bio)); }

  /// Runs `move`, which returns bytes or why there are none. OpenSSL's frames take no exception.
  template <typename Move>
  static int Keep(TlsWire& wire, Move&& move) {
    int moved = -1;
    Guarded(
        [&] {
          const Result<int> bytes = std::forward<Move>(move)();
          if (bytes.ok()) {
            moved = *bytes;
          } else {
            wire.failure_ = bytes.status();
          }
        },
        [&](ErrorKind /*kind*/, const char* /*what*/) { wire.no_memory_ = true; });
    return moved;
  }

  static int Write(BIO* bio, const char* data, int size) {
    ::BIO_clear_retry_flags(bio);
    TlsWire& wire = WireOf(bio);
    return Keep(wire, [&]() -> Result<int> {
      const auto bytes = std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
      TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, wire.Append(bytes.size()));
      std::ranges::copy(bytes, room.begin());
      return size;
    });
  }

  static int Read(BIO* bio, char* space, int size) {
    ::BIO_clear_retry_flags(bio);
    TlsWire& wire = WireOf(bio);
    return Keep(wire, [&]() -> Result<int> {
      if (wire.input().empty()) {
        TFOS_ASSIGN_OR_RETURN(const Transfer got, wire.Fill(1));
        if (got.blocked) ::BIO_set_retry_read(bio);
        if (got.ended) ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
        if (got.bytes == 0) return got.ended ? 0 : -1;
      }
      const std::size_t bytes = std::min(wire.input().size(), static_cast<std::size_t>(size));
      std::memcpy(space, wire.input().data(), bytes);
      wire.Take(bytes);
      return static_cast<int>(bytes);
    });
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

TlsWire::TlsWire(int socket, std::size_t first_bytes)
    : socket_(socket), out_(first_bytes), in_(first_bytes) {
  if (out_.size() == 0 || in_.size() == 0) failure_ = NoMemory(first_bytes);
}

Status TlsWire::Widen(std::size_t batch_bytes) {
  if (batch_bytes > out_.size()) {
    TFOS_ASSIGN_OR_RETURN(out_, Grown(out_, sent_, out_end_, batch_bytes));
    out_end_ -= std::exchange(sent_, 0);
  }
  if (batch_bytes > in_.size()) {
    TFOS_ASSIGN_OR_RETURN(in_, Grown(in_, in_begin_, in_end_, batch_bytes));
    in_end_ -= std::exchange(in_begin_, 0);
  }
  return {};
}

Status TlsWire::failure() const {
  return no_memory_ ? Status(ErrorKind::kNoResources, "no memory for TLS") : failure_;
}

Result<std::span<std::byte>> TlsWire::Append(std::size_t bytes) {
  if (bytes > out_.size() - out_end_) {
    TFOS_ASSIGN_OR_RETURN(
        out_, Grown(out_, sent_, out_end_, std::max(2 * out_.size(), out_end_ - sent_ + bytes)));
    out_end_ -= std::exchange(sent_, 0);
  }
  out_end_ += bytes;
  return out_.bytes().subspan(out_end_ - bytes, bytes);
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
  while (holds_output()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer sent,
                          Send(socket_, out_.bytes().subspan(sent_, out_end_ - sent_), {}));
    if (sent.blocked) return false;
    sent_ += sent.bytes;
  }
  sent_ = out_end_ = 0;
  return true;
}

Result<Transfer> TlsWire::Fill(std::size_t wanted) {
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (wanted > in_.size()) {
    TFOS_ASSIGN_OR_RETURN(in_, Grown(in_, in_begin_, in_end_, wanted));
    in_end_ -= std::exchange(in_begin_, 0);
  } else if (in_begin_ + wanted > in_.size() || in_end_ == in_.size()) {
    std::ranges::copy(input(), in_.bytes().begin());
    in_end_ -= std::exchange(in_begin_, 0);
  }
  TFOS_ASSIGN_OR_RETURN(const Transfer got,
                        Receive(socket_, in_.bytes().subspan(in_end_), nullptr));
  in_end_ += got.bytes;
  return got;
}

}  // namespace tfos::net
