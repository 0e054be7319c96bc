#include "collective/mesh/stream_choice.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "base/memory/bytes.h"
#include "net/handshake.h"
#include "net/tls/tls_stream.h"

namespace tfos::collective {
namespace {

/// An address of UCX grows with the devices of a host.
constexpr std::uint32_t kLongestAddress = std::uint32_t{64} << 10;

/// What a member says of its UCX; without an address it has none.
struct Offer {
  std::uint64_t tag = 0;
  std::vector<std::byte> address;
};

Result<Offer> OfferOf(const net::UcxWorker* ucx) {
  Offer offer;
  if (ucx == nullptr) return offer;
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  std::memcpy(&offer.tag, random.bytes().data(), sizeof(offer.tag));
  offer.address.assign(ucx->address().begin(), ucx->address().end());
  return offer;
}

Status SendOffer(int socket, const Offer& offer, const Wait& wait) {
  std::string message;
  AppendBytes(static_cast<std::uint32_t>(offer.address.size()), message);
  AppendBytes(offer.tag, message);
  message.append(reinterpret_cast<const char*>(offer.address.data()), offer.address.size());
  return net::SendAll(socket, std::as_bytes(std::span(message)), wait);
}

Result<Offer> ReceiveOffer(int socket, const Wait& wait) {
  std::uint32_t size = 0;
  Offer offer;
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(socket, WritableBytesOf(size), wait));
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(socket, WritableBytesOf(offer.tag), wait));
  if (size > kLongestAddress) {
    return Status(ErrorKind::kBadInput, fmt::format("an address of UCX of {} bytes", size));
  }
  offer.address.resize(size);
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(socket, offer.address, wait));
  return offer;
}

/// Tells the other end whether this one can go over UCX, and is told. True if both can.
Result<bool> BothCan(int socket, bool can, const Wait& wait) {
  std::byte ours{static_cast<std::uint8_t>(can ? 1 : 0)};
  std::byte theirs{};
  TFOS_RETURN_IF_ERROR(net::SendAll(socket, std::span(&ours, 1), wait));
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(socket, std::span(&theirs, 1), wait));
  return can && theirs == std::byte{1};
}

}  // namespace

Result<Rdma> RdmaFromWord(std::string_view word) {
  if (word == "false") return Rdma::kOff;
  if (word == "true") return Rdma::kPreferred;
  if (word == "required") return Rdma::kRequired;
  return Status(ErrorKind::kBadInput,
                fmt::format("rdma={} is none of false, true and required", word));
}

Result<std::unique_ptr<net::UcxWorker>> StartUcx(const GroupOptions& options) {
  if (options.rdma == Rdma::kOff) return std::unique_ptr<net::UcxWorker>();
  auto started = net::UcxWorker::Create({.peers = options.members.size(),
                                         .transports = options.ucx_transports,
                                         .packaged = options.packaged_ucx});
  if (started.ok()) return started;
  if (options.rdma == Rdma::kRequired) {
    return started.status().Annotate("tensors must go over UCX (rdma=\"required\")");
  }
  LogWarning("Tensors go over TCP, though rdma=True asks for UCX: {}", started.status().ToString());
  return std::unique_ptr<net::UcxWorker>();
}

Result<std::unique_ptr<net::Stream>> ChooseStream(UniqueFd socket, bool connecting,
                                                  const Secret& key, const GroupOptions& options,
                                                  net::UcxWorker* ucx, const Wait& wait) {
  if (options.encrypt) {
    const auto side =
        connecting ? net::TlsStream::Side::kConnecting : net::TlsStream::Side::kAccepting;
    TFOS_ASSIGN_OR_RETURN(auto stream, net::TlsStream::Open(std::move(socket), side, key, wait, {}));
    return std::unique_ptr<net::Stream>(std::move(stream));
  }
  TFOS_ASSIGN_OR_RETURN(const Offer ours, OfferOf(ucx));
  TFOS_RETURN_IF_ERROR(SendOffer(socket.get(), ours, wait));
  TFOS_ASSIGN_OR_RETURN(const Offer theirs, ReceiveOffer(socket.get(), wait));
  if (!ours.address.empty() && !theirs.address.empty()) {
    auto opened = ucx->Open(theirs.address, ours.tag, theirs.tag);
    if (!opened.ok()) {
      LogWarning("No connection of UCX to another member: {}", opened.status().ToString());
    }
    TFOS_ASSIGN_OR_RETURN(const bool both, BothCan(socket.get(), opened.ok(), wait));
    if (both) {
      (*opened)->Adopt(std::move(socket));
      return opened;
    }
  }
  return std::unique_ptr<net::Stream>(std::make_unique<net::SocketStream>(std::move(socket)));
}

}  // namespace tfos::collective
