#include "seeds/tensor_corpus.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "collective/mesh/link.h"
#include "net/handshake/handshake.h"
#include "net/handshake/messages.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/tls/tls_stream.h"
#include "parameter_server/wire/protocol.h"

namespace tfos {
namespace {

/// What one end of a connection says first.
template <typename Action>
std::string FirstWords(const Action& action) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::exit(1);
  const UniqueFd other(ends[1]);
  const Wait wait{.deadline = Deadline::After(std::chrono::seconds(30))};
  std::string words(4096, '\0');
  std::thread speaker([&] { action(UniqueFd(ends[0]), wait); });
  std::size_t bytes = 0;
  if (Must(net::Poll(other.get(), POLLIN, wait)) != 0) {
    bytes =
        Must(net::Receive(other.get(), std::as_writable_bytes(std::span(words)), nullptr)).bytes;
  }
  ::shutdown(other.get(), SHUT_RDWR);
  speaker.join();
  words.resize(bytes);
  return words;
}

void AddHandshakes(std::vector<Seed>& seeds) {
  constexpr net::Protocol kProtocol{.magic = "tfos-ten", .version = 5, .name = "tensors"};
  const Secret key = Must(Secret::Generate());
  const net::Party party{.protocol = kProtocol, .key = key};
  std::string hello = FirstWords([&](UniqueFd fd, const Wait& wait) {
    (void)net::ShakeHands(std::move(fd), party, {.connecting = 1, .accepting = 0}, wait).ok();
  });
  const std::string proof(sizeof(Digest), 'p');
  seeds.push_back({"handshake", "hello", Byte(0) + hello + proof});
  net::Challenge challenge{.version = kProtocol.version, .least = net::Channel::kLocal};
  kProtocol.magic.copy(challenge.magic.data(), challenge.magic.size());
  seeds.push_back({"handshake", "challenge", Byte(1) + net::Encode(challenge) + proof});
  const std::string tls = FirstWords([&](UniqueFd fd, const Wait& wait) {
    (void)net::TlsStream::Open(std::move(fd), net::TlsStream::Side::kConnecting, key, wait, {})
        .ok();
  });
  seeds.push_back({"handshake", "tls", Byte(3) + tls});
  constexpr std::size_t kChannelAt = 10;
  hello[kChannelAt] = static_cast<char>(net::Channel::kTls);
  seeds.push_back({"handshake", "hello_tls", Byte(5) + hello + tls});
  challenge.least = net::Channel::kTls;
  seeds.push_back({"handshake", "challenge_tls", Byte(6) + net::Encode(challenge) + tls});
  std::string offer(12, '\0');
  offer[0] = 5;
  seeds.push_back({"handshake", "offer", Byte(2) + offer + "where" + Byte(1)});
}

/// Keeps what is sent.
class KeepingStream final : public net::Stream {
 public:
  explicit KeepingStream(std::string& sent) : Stream(UniqueFd()), sent_(sent) {}

  std::string Describe() const override { return "kept"; }
  Result<net::Transfer> Send(std::span<const std::byte> first,
                             std::span<const std::byte> second) override {
    sent_ += TextOf(first);
    sent_ += TextOf(second);
    return net::Transfer{.bytes = first.size() + second.size()};
  }
  Result<net::Transfer> Receive(std::span<std::byte> /*space*/) override {
    return net::Transfer{.blocked = true};
  }

 private:
  std::string& sent_;
};

/// What a link to `peer` sends in `action`.
template <typename Action>
std::string SentTo(const std::string& peer, const Action& action) {
  std::string sent;
  collective::Link link(std::make_unique<KeepingStream>(sent), peer);
  action(link);
  return sent;
}

void AddLinks(std::vector<Seed>& seeds) {
  using namespace collective;  // NOLINT(google-build-using-namespace)
  const Operation sum{.number = 3,
                      .kind = OperationKind::kAllReduce,
                      .dtype = DType::kFloat32,
                      .elements = 16,
                      .name = "sum"};
  const std::string sent = SentTo("worker:1", [&](Link& link) {
    link.Begin(sum);
    link.TellWaiting(2);
    const std::vector<std::byte> elements(64, std::byte{1});
    link.Send(elements);
    (void)link.Push().ok();
    link.TellLeft(3);
    (void)link.Push().ok();
  });
  seeds.push_back({"link", "copied", Byte(20) + sent});
  seeds.push_back({"link", "added", Byte(21) + sent});
}

/// What the second of two members says in each of the ways of group_fuzz.cc.
void AddGroups(std::vector<Seed>& seeds) {
  using namespace collective;  // NOLINT(google-build-using-namespace)
  const auto said = [](const Operation& operation, const std::vector<std::size_t>& steps) {
    return SentTo("worker:0", [&](Link& link) {
      link.Begin(operation);
      for (const std::size_t bytes : steps) {
        const std::vector<std::byte> elements(bytes, std::byte{2});
        link.Send(elements);
        (void)link.Push().ok();
      }
    });
  };
  const auto left = [](std::uint64_t begun) {
    return SentTo("worker:0", [&](Link& link) {
      link.TellLeft(begun);
      (void)link.Push().ok();
    });
  };
  Operation sum{.number = 1,
                .kind = OperationKind::kAllReduce,
                .dtype = DType::kFloat32,
                .elements = 16,
                .name = "sum"};
  seeds.push_back({"group", "sum", Byte(0) + said(sum, {64})});
  seeds.push_back({"group", "take_part", Byte(5) + said(sum, {64}) + left(2)});
  seeds.push_back({"group", "leave", Byte(5) + left(1)});
  sum.elements = 20'000;
  seeds.push_back({"group", "large_sum", Byte(1) + said(sum, {40'000, 40'000})});
  sum.wire = DType::kBfloat16;
  seeds.push_back({"group", "narrow_sum", Byte(2) + said(sum, {20'000, 20'000})});
  const Operation values{.number = 1,
                         .kind = OperationKind::kBroadcast,
                         .root = 1,
                         .elements = 80'000,
                         .name = "values"};
  seeds.push_back({"group", "broadcast", Byte(3) + said(values, {80'000})});
  const Operation sizes{
      .number = 1, .kind = OperationKind::kGatherSizes, .elements = 8, .name = "rows"};
  const Operation rows{
      .number = 2, .kind = OperationKind::kAllGather, .elements = 16, .name = "rows"};
  std::string size = said(sizes, {8});
  const std::uint64_t bytes = 8;
  std::memcpy(size.data() + size.size() - sizeof(bytes), &bytes, sizeof(bytes));
  seeds.push_back({"group", "gather", Byte(4) + size + said(rows, {8})});
}

parameter_server::Open OpenOf(std::uint64_t region_bytes, std::uint64_t elements) {
  return {.rule = {.combiner = parameter_server::Combiner::kAdam,
                   .learning_rate = 0.001,
                   .beta_1 = 0.9,
                   .beta_2 = 0.999,
                   .epsilon = 1e-7},
          .starts = true,
          .link = 42,
          .staleness = 3,
          .region_bytes = region_bytes,
          .name = "worker:0",
          .share = {{.dtype = parameter_server::DType::kFloat32, .elements = elements}}};
}

/// What clients say in each of the ways of parameter_server_fuzz.cc.
void AddParameterClients(std::vector<Seed>& seeds) {
  using namespace parameter_server;  // NOLINT(google-build-using-namespace)
  Open open = OpenOf(0, 32);
  const Range with_data{.data_follow = true, .bytes = 128};
  const std::string data(128, '\1');
  const std::string rest =
      Encode(MessageType::kWrite, with_data) + data + EncodeVersion(MessageType::kStart, 7) +
      Encode(MessageType::kPush, with_data) + data + EncodeVersion(MessageType::kCommit, 1) +
      Encode(MessageType::kRead, Range{.part = 1, .bytes = 128});
  seeds.push_back({"parameter_server", "over_tcp", Byte(1) + Encode(open) + rest});
  Open gives = open;
  gives.gives = 6;
  seeds.push_back({"parameter_server", "returning", Byte(3) + Encode(gives) + rest});
  open.region_bytes = 128;
  seeds.push_back(
      {"parameter_server", "over_unix",
       Byte(0) + Encode(open) + rest + Encode(MessageType::kPush, Range{.bytes = 128})});
}

void AddParameterMessages(std::vector<Seed>& seeds) {
  using namespace parameter_server;  // NOLINT(google-build-using-namespace)
  seeds.push_back({"parameter_message", "open", Encode(OpenOf(4096, 100))});
  seeds.push_back({"parameter_message", "push",
                   Encode(MessageType::kPush, Range{.data_follow = true, .bytes = 64})});
  seeds.push_back(
      {"parameter_message", "values",
       Encode(MessageType::kValues, Range{.part = 1, .begin = 64, .bytes = 64, .version = 9})});
  seeds.push_back(
      {"parameter_message", "opened", Encode(Opened{.version = 5, .pushes = 3, .combined = 128})});
  seeds.push_back({"parameter_message", "commit", EncodeVersion(MessageType::kCommit, 4)});
  seeds.push_back({"parameter_message", "waiting",
                   Encode(Waiting{.clock = 5, .other_clock = 2, .name = "worker:1"})});
  seeds.push_back(
      {"parameter_message", "failed", Encode(Failed{.kind = ErrorKind::kBadInput, .text = "no"})});
}

}  // namespace

std::vector<Seed> TensorSeeds() {
  std::vector<Seed> seeds;
  AddHandshakes(seeds);
  AddLinks(seeds);
  AddGroups(seeds);
  AddParameterClients(seeds);
  AddParameterMessages(seeds);
  return seeds;
}

}  // namespace tfos
