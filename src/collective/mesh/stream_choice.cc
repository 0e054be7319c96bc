#include "collective/mesh/stream_choice.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/memory/bytes.h"
#include "base/text/choice.h"
#include "net/socket.h"

namespace tfos::collective {
namespace {

/// An address of UCX grows with the devices of a host.
constexpr std::uint32_t kLongestAddress = std::uint32_t{64} << 10;

constexpr Choice<Rdma> kRdma[] = {
    {"false", Rdma::kOff}, {"true", Rdma::kPreferred}, {"required", Rdma::kRequired}};

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

Status SendOffer(net::Stream& stream, const Offer& offer, const Wait& wait) {
  std::string message;
  AppendBytes(static_cast<std::uint32_t>(offer.address.size()), message);
  AppendBytes(offer.tag, message);
  message.append(reinterpret_cast<const char*>(offer.address.data()), offer.address.size());
  return net::SendAll(stream, std::as_bytes(std::span(message)), wait);
}

Result<Offer> ReceiveOffer(net::Stream& stream, const Wait& wait) {
  std::uint32_t size = 0;
  Offer offer;
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(stream, WritableBytesOf(size), wait));
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(stream, WritableBytesOf(offer.tag), wait));
  if (size > kLongestAddress) {
    return Status(ErrorKind::kBadInput, fmt::format("an address of UCX of {} bytes", size));
  }
  offer.address.resize(size);
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(stream, offer.address, wait));
  return offer;
}

/// Tells the other end whether this one can go over UCX, and is told. True if both can.
Result<bool> BothCan(net::Stream& stream, bool can, const Wait& wait) {
  std::byte ours{static_cast<std::uint8_t>(can ? 1 : 0)};
  std::byte theirs{};
  TFOS_RETURN_IF_ERROR(net::SendAll(stream, std::span(&ours, 1), wait));
  TFOS_RETURN_IF_ERROR(net::ReceiveAll(stream, std::span(&theirs, 1), wait));
  return can && theirs == std::byte{1};
}

}  // namespace

Result<Rdma> RdmaFromWord(std::string_view word) {
  return ChoiceNamed("spark.tfos.rdma", kRdma, word);
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

Result<std::unique_ptr<net::Stream>> ChooseStream(std::unique_ptr<net::Stream> stream,
                                                  net::UcxWorker* ucx, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const Offer ours, OfferOf(ucx));
  TFOS_RETURN_IF_ERROR(SendOffer(*stream, ours, wait));
  TFOS_ASSIGN_OR_RETURN(const Offer theirs, ReceiveOffer(*stream, wait));
  if (ours.address.empty() || theirs.address.empty()) return stream;
  auto opened = ucx->Open(theirs.address, ours.tag, theirs.tag);
  if (!opened.ok()) {
    LogWarning("No connection of UCX to another member: {}", opened.status().ToString());
  }
  TFOS_ASSIGN_OR_RETURN(const bool both, BothCan(*stream, opened.ok(), wait));
  if (!both) return stream;
  (*opened)->Adopt(std::move(stream));
  return opened;
}

}  // namespace tfos::collective
