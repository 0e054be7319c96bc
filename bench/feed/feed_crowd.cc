// Measures how long feeders take that come to a node all at the same moment: to connect, to shake
// hands, to feed a small chunk and to hear that it has arrived. By themselves, while thousands of
// strangers connect who say nothing, and while those are there.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/process/unique_fd.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "net/socket.h"

namespace tfos {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr std::chrono::minutes kLong{2};
constexpr std::string_view kRow = "a row";

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.status().ToString());
  std::exit(1);
}

/// A process of its own, with descriptors of its own, which says a number through a pipe.
struct Child {
  explicit Child(const std::function<void(int pipe)>& run) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::exit(1);
    heard.Reset(ends[0]);
    process = ::fork();
    if (process == 0) {
      run(ends[1]);
      ::pause();
      ::_exit(0);
    }
    ::close(ends[1]);
  }
  ~Child() {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }

  std::uint16_t Hear() const {
    std::uint16_t number = 0;
    if (::read(heard.get(), &number, sizeof(number)) != sizeof(number)) std::exit(1);
    return number;
  }

  pid_t process = 0;
  UniqueFd heard;
};

void Say(int pipe, std::uint16_t number) {
  if (::write(pipe, &number, sizeof(number)) != sizeof(number)) std::exit(1);
}

void RunNode(int pipe, const Secret& key) {
  SetUpLogging("node", "OFF");
  static std::unique_ptr<feed::FeedServer> server = Must(feed::FeedServer::Start(
      {.key = key, .encryption = net::Encryption::kAlways, .bind_address = "127.0.0.1"}));
  std::thread([] {
    while (server->Next("input", {}).ok()) {
    }
  }).detach();
  Say(pipe, server->endpoint().port);
}

void BeSilent(int pipe, std::uint16_t port, std::size_t count) {
  static std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < count; ++i) {
    strangers.push_back(
        Must(net::ConnectTcp("127.0.0.1", port, {.deadline = Deadline::After(kLong)})));
  }
  Say(pipe, 1);
}

Status Feed(std::uint16_t port, const Secret& key, std::uint32_t partition) {
  TFOS_ASSIGN_OR_RETURN(
      const auto client,
      feed::FeedClient::Connect({.host = "127.0.0.1", .port = port}, key,
                                {.encryption = net::Encryption::kAlways, .number = partition},
                                Deadline::After(kLong)));
  TFOS_RETURN_IF_ERROR(
      client->Open({.key = {.partition = partition}, .region_bytes = 4096}).status());
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, client->Reserve(kRow.size()));
  std::memcpy(room.data(), kRow.data(), kRow.size());
  TFOS_RETURN_IF_ERROR(client->Commit(kRow.size(), {0, 1}));
  return client->Finish().status();
}

/// All at the same moment.
void MeasureFeeders(std::string_view when, std::uint16_t port, const Secret& key,
                    std::size_t count) {
  static std::uint32_t next_partition = 0;
  std::vector<double> seconds(count);
  std::atomic<std::size_t> failed = 0;
  std::latch begin(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> feeders;
  for (std::size_t i = 0; i < count; ++i) {
    feeders.emplace_back([&, i, partition = next_partition++] {
      begin.arrive_and_wait();
      const auto begun = steady_clock::now();
      const Status fed = Feed(port, key, partition);
      if (!fed.ok() && failed++ == 0) fmt::print(stderr, "{}\n", fed.ToString());
      seconds[i] = duration<double>(steady_clock::now() - begun).count();
    });
  }
  for (std::thread& feeder : feeders) feeder.join();
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:<40} {} feeders, {} failed: median {:.3f} s, longest {:.3f} s\n", when, count,
             failed.load(), seconds[count / 2], seconds.back());
}

}  // namespace
}  // namespace tfos

int main(int argc, char** argv) {
  using namespace tfos;  // NOLINT(google-build-using-namespace)
  std::size_t feeders = 300;
  std::size_t strangers = 10'000;
  CLI::App app("How long feeders take that come all at once, without strangers and with many.");
  app.add_option("--feeders", feeders)->capture_default_str();
  app.add_option("--strangers", strangers)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto descriptors = static_cast<rlim_t>(strangers + 1000);
  const rlimit many{.rlim_cur = descriptors, .rlim_max = descriptors};
  if (::setrlimit(RLIMIT_NOFILE, &many) != 0) {
    fmt::print(stderr, "{} descriptors are not to be had\n", descriptors);
    return 1;
  }
  const Secret key = Must(Secret::Generate());
  const Child node([&](int pipe) { RunNode(pipe, key); });
  const std::uint16_t port = node.Hear();
  MeasureFeeders("by themselves", port, key, feeders);
  const Child silent([&](int pipe) { BeSilent(pipe, port, strangers); });
  MeasureFeeders("while strangers come", port, key, feeders);
  silent.Hear();
  MeasureFeeders("while strangers are there", port, key, feeders);
  return 0;
}
