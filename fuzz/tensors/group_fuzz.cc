// What a member may say to another one that it has shaken hands with, while that one does what the
// first byte chooses. The rest are the member's frames after the two have met.

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "collective/group.h"
#include "collective/mesh/link_frame.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/socket.h"
#include "quiet.h"

namespace {

using namespace tfos;              // NOLINT(google-build-using-namespace)
using namespace tfos::collective;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

const Wait kWait{.deadline = Deadline::After(std::chrono::hours(24))};

/// The member that takes part in this has a gigabyte of zeros for it: right, and slow.
bool TakesMuchMemory(std::span<const std::byte> frames) {
  while (frames.size() >= kHeaderBytes) {
    const FrameHeader header = FrameHeader::Of(frames);
    const std::size_t whole =
        header.type == FrameType::kData ? kHeaderBytes + header.length : header.frame_bytes();
    if (whole > frames.size()) return false;
    if (header.type == FrameType::kOperation) {
      const auto operation = Operation::Parse(frames.subspan(kHeaderBytes, header.length));
      if (operation.ok() && operation->elements > kMostBytes / sizeof(double)) return true;
    }
    frames = frames.subspan(whole);
  }
  return false;
}

/// What a member says that shares no memory.
std::string Meeting() {
  std::string said;
  const Operation meeting{
      .kind = OperationKind::kMeet, .elements = 16, .name = "the hosts of members"};
  AppendFrame(FrameType::kOperation, meeting.Encode(), said);
  AppendHeader(FrameType::kData, meeting.elements, said);
  said.append(meeting.elements, '\0');
  return said;
}

/// Joins as the second member, says all of it and no more. What it returns is to be held until the
/// first one has ended.
std::unique_ptr<net::Stream> Say(std::uint16_t port, const Secret& key, std::string_view said) {
  auto socket = net::ConnectTcp("127.0.0.1", port, kWait);
  if (!socket.ok()) return nullptr;
  auto connection =
      net::ShakeHands(std::move(socket).value(), {.protocol = kTensorProtocol, .key = key},
                      {.connecting = 1, .accepting = 0}, kWait);
  if (!connection.ok()) return nullptr;
  auto stream = ChooseStream(std::move(connection->stream), nullptr, kWait);
  if (!stream.ok()) return nullptr;
  (void)net::SendAll(**stream, std::as_bytes(std::span(said)), kWait).ok();
  ::shutdown((*stream)->fd(), SHUT_WR);
  return std::move(stream).value();
}

void TakePart(Group& group, int way) {
  std::vector<std::byte> data(way == 0 ? 64 : 80'000, std::byte{1});
  switch (way) {
    case 0:
    case 1:
      (void)group.AllReduce(DType::kFloat32, data, "sum").ok();
      return;
    case 2:
      (void)group.AllReduce(DType::kFloat32, data, "sum", DType::kBfloat16).ok();
      return;
    case 3:
      (void)group.Broadcast(1, data, "values").ok();
      return;
    case 4: {
      const auto sizes = group.GatherSizes(8, "rows");
      if (!sizes.ok() || (*sizes)[1] > kMostBytes) return;
      data.resize((*sizes)[0] + (*sizes)[1]);
      (void)group.AllGather(*sizes, data, "rows").ok();
      return;
    }
    default:
      (void)group.Leave().ok();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("ERROR");
  static const Secret key = Secret::Generate().value();
  static const std::string meeting = Meeting();
  if (size == 0) return 0;
  const auto frames = std::as_bytes(std::span(data + 1, size - 1));
  if (TakesMuchMemory(frames)) return 0;
  net::TcpListener listener = net::ListenTcp("127.0.0.1", 0, 0).value();
  GroupOptions options;
  options.members = {{.name = "worker:0", .address = "127.0.0.1", .port = listener.port},
                     {.name = "worker:1", .address = "127.0.0.1", .port = 1}};
  options.key = key;
  options.listener = std::move(listener.fd);
  options.shared_memory = false;
  const std::string said =
      meeting + std::string(reinterpret_cast<const char*>(frames.data()), frames.size());
  std::unique_ptr<net::Stream> stream;
  std::thread other([&] { stream = Say(listener.port, key, said); });
  const auto group = Group::Join(std::move(options));
  other.join();
  if (group.ok()) TakePart(**group, data[0] % 6);
  return 0;
}
