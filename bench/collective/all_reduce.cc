// Measures all-reduce of float32 between processes on this machine: tfos over TCP, TLS, UCX and
// shared memory, Gloo where it is installed, and a bound: the same bytes through bare sockets, and
// one pass of additions. All take turns in the same processes. Results are verified before anything
// is timed. Writes a line of JSON for each size and contender.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "collective/group.h"
#include "net/socket.h"

#ifdef TFOS_HAS_GLOO
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

namespace tfos::collective {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

[[noreturn]] void Die(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::_Exit(1);
}

void Must(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

/// One way to sum up, as one process sees it.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  virtual ~Contender() = default;
  const std::string& name() const { return name_; }
  /// Whether `data` is the sum afterwards; a bound does no more than move and add.
  virtual bool sums() const { return true; }
  virtual void AllReduce(std::span<float> data) = 0;

 private:
  const std::string name_;
};

class Tfos final : public Contender {
 public:
  Tfos(std::string name, GroupOptions options) : Contender(std::move(name)) {
    auto joined = Group::Join(std::move(options));
    Must(joined.ok() ? Status() : joined.status());
    group_ = std::move(joined).value();
  }
  void AllReduce(std::span<float> data) override {
    Must(group_->AllReduce(DType::kFloat32, std::as_writable_bytes(data), "bench"));
  }
  Group& group() { return *group_; }
  ~Tfos() override { Must(group_->Leave()); }

 private:
  std::unique_ptr<Group> group_;
};

/// Sends to the right and receives from the left what a ring would, at a time, and adds.
class Bare final : public Contender {
 public:
  Bare(std::size_t members, UniqueFd left, UniqueFd right)
      : Contender("bound"), members_(members), left_(std::move(left)), right_(std::move(right)) {}
  bool sums() const override { return false; }

  void AllReduce(std::span<float> data) override {
    const std::size_t share = data.size() / members_ * (members_ - 1);
    room_.resize(share);
    for (int pass = 0; pass < 2; ++pass) {
      Exchange(std::as_bytes(data.first(share)), std::as_writable_bytes(std::span(room_)));
    }
    AddElements(DType::kFloat32, std::as_bytes(std::span(room_)),
                std::as_writable_bytes(data.first(share)));
  }

 private:
  void Exchange(std::span<const std::byte> out, std::span<std::byte> in) {
    while (!out.empty() || !in.empty()) {
      bool moved = false;
      if (!out.empty()) {
        const ssize_t sent = ::send(right_.get(), out.data(), out.size(), MSG_DONTWAIT);
        if (sent > 0) out = out.subspan(static_cast<std::size_t>(sent));
        moved = sent > 0;
      }
      if (!in.empty()) {
        const ssize_t received = ::recv(left_.get(), in.data(), in.size(), MSG_DONTWAIT);
        if (received == 0) Die("the bound's neighbour has closed");
        if (received > 0) in = in.subspan(static_cast<std::size_t>(received));
        moved = moved || received > 0;
      }
      if (moved) continue;
      pollfd ready[2] = {{.fd = out.empty() ? -1 : right_.get(), .events = POLLOUT, .revents = 0},
                         {.fd = in.empty() ? -1 : left_.get(), .events = POLLIN, .revents = 0}};
      ::poll(ready, 2, -1);
    }
  }

  const std::size_t members_;
  UniqueFd left_;
  UniqueFd right_;
  std::vector<float> room_;
};

#ifdef TFOS_HAS_GLOO
class Gloo final : public Contender {
 public:
  Gloo(std::size_t rank, std::size_t members, const std::string& directory) : Contender("gloo") {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank),
                                                               static_cast<int>(members));
    gloo::rendezvous::FileStore store(directory);
    auto device = gloo::transport::tcp::CreateDevice(where);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  void AllReduce(std::span<float> data) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
};
#endif

struct Plan {
  std::size_t members = 2;
  std::vector<std::size_t> sizes;
  std::size_t rounds = 5;
  std::vector<std::string> ways;  ///< Only these, and the first; empty: all.
};

UniqueFd BoundSocket(std::uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    Die("no port on the loopback");
  }
  port = ntohs(address.sin_port);
  return fd;
}

/// Both ends of a TCP connection.
std::pair<UniqueFd, UniqueFd> Connected() {
  std::uint16_t port = 0;
  const UniqueFd listener = BoundSocket(port);
  if (::listen(listener.get(), 1) != 0) Die("can't listen");
  auto one = net::ConnectTcp("127.0.0.1", port, {});
  Must(one.ok() ? Status() : one.status());
  UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  net::TuneTcp(other.get());
  return {std::move(one).value(), std::move(other)};
}

/// A way for tensors to travel.
struct Way {
  std::string name;
  bool shared_memory = false;
  bool encrypt = false;
  std::string ucx = {};  ///< What UCX may use; empty: no UCX.
};

/// The first one is what processes agree over what to measure.
std::vector<Way> Ways(const Plan& plan) {
  std::vector<Way> ways = {{.name = "tcp"},
                           {.name = "shared memory", .shared_memory = true},
                           {.name = "tls", .encrypt = true}};
#ifdef TFOS_HAS_UCX
  // For memory that may lose a process UCX wants to be told.
  ::setenv("UCX_POSIX_ERROR_HANDLING", "y", 1);
  ways.push_back({.name = "ucx, tcp", .ucx = "tcp"});
  ways.push_back({.name = "ucx, shared memory", .ucx = "posix"});
#endif
  const std::string first = ways.front().name;
  std::erase_if(ways, [&](const Way& way) {
    return !plan.ways.empty() && way.name != first &&
           std::ranges::find(plan.ways, way.name) == plan.ways.end();
  });
  return ways;
}

std::vector<GroupOptions> MakeGroup(std::size_t members, const Way& way) {
  auto key = Secret::Generate();
  Must(key.ok() ? Status() : key.status());
  std::vector<GroupOptions> options(members);
  std::vector<Member> all(members);
  for (std::size_t rank = 0; rank < members; ++rank) {
    all[rank] = {.name = fmt::format("process {}", rank), .address = "127.0.0.1"};
    options[rank].listener = BoundSocket(all[rank].port);
  }
  for (std::size_t rank = 0; rank < members; ++rank) {
    options[rank].members = all;
    options[rank].rank = static_cast<std::uint32_t>(rank);
    options[rank].key = *key;
    options[rank].shared_memory = way.shared_memory;
    options[rank].encryption = way.encrypt ? net::Encryption::kAlways : net::Encryption::kNever;
    options[rank].ucx_transports = way.ucx;
    options[rank].packaged_ucx = TFOS_PACKAGED_UCX;
    if (!way.ucx.empty()) options[rank].rdma = Rdma::kRequired;
  }
  return options;
}

void Verify(Contender& contender, std::size_t members, std::size_t rank, std::span<float> data) {
  // Sums that float32 has exactly, different from place to place.
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>((i % 1000) + rank);
  }
  contender.AllReduce(data);
  const std::size_t ranks = members * (members - 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != static_cast<float>((i % 1000) * members + ranks)) {
      Die(fmt::format("{} of {} elements: wrong at {}", contender.name(), data.size(), i));
    }
  }
}

/// What an all-reduce takes, on average.
struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;  ///< Of this process, threads and system included.
};

double CpuSeconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

Cost Sample(Contender& contender, Group& group, std::span<float> data, std::size_t times) {
  std::ranges::fill(data, 0.0F);  // Else it grows beyond all numbers.
  Must(group.Barrier("begin"));
  const double cpu_begin = CpuSeconds();
  const auto begin = steady_clock::now();
  for (std::size_t i = 0; i < times; ++i) contender.AllReduce(data);
  const double seconds = duration<double>(steady_clock::now() - begin).count();
  return {.seconds = seconds / static_cast<double>(times),
          .cpu_seconds = (CpuSeconds() - cpu_begin) / static_cast<double>(times)};
}

/// How many make a sample of about 50 ms, as the first process finds while it warms up.
std::size_t Times(Contender& contender, Group& group, std::span<float> data) {
  const double seconds = Sample(contender, group, data, 3).seconds;
  std::uint64_t times = static_cast<std::uint64_t>(std::clamp(0.05 / seconds, 1.0, 1000.0));
  Must(group.Broadcast(0, std::as_writable_bytes(std::span(&times, 1)), "times"));
  return times;
}

void RunProcess(const Plan& plan, std::size_t rank, std::vector<GroupOptions> of_ways,
                UniqueFd left, UniqueFd right, const std::string& directory) {
  std::vector<std::unique_ptr<Contender>> contenders;
  const std::vector<Way> ways = Ways(plan);
  Group* first = nullptr;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    auto contender = std::make_unique<Tfos>(ways[way].name, std::move(of_ways[way]));
    if (way == 0) first = &contender->group();
    contenders.push_back(std::move(contender));
  }
  Group& group = *first;
#ifdef TFOS_HAS_GLOO
  contenders.push_back(std::make_unique<Gloo>(rank, plan.members, directory));
#else
  static_cast<void>(directory);
#endif
  contenders.push_back(std::make_unique<Bare>(plan.members, std::move(left), std::move(right)));
  for (const std::size_t bytes : plan.sizes) {
    std::vector<float> data(bytes / sizeof(float));
    for (const auto& contender : contenders) {
      if (contender->sums()) Verify(*contender, plan.members, rank, data);
    }
    std::vector<std::size_t> times;
    for (const auto& contender : contenders) times.push_back(Times(*contender, group, data));
    std::vector<std::vector<double>> seconds(contenders.size());
    std::vector<std::vector<double>> cpu_seconds(contenders.size());
    for (std::size_t round = 0; round < plan.rounds; ++round) {
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        const Cost cost = Sample(*contenders[i], group, data, times[i]);
        seconds[i].push_back(cost.seconds);
        cpu_seconds[i].push_back(cost.cpu_seconds);
      }
    }
    for (std::size_t i = 0; rank == 0 && i < contenders.size(); ++i) {
      fmt::print(
          "{{\"members\": {}, \"bytes\": {}, \"contender\": \"{}\", \"seconds\": [{}], "
          "\"cpu_seconds\": [{}]}}\n",
          plan.members, bytes, contenders[i]->name(), fmt::join(seconds[i], ", "),
          fmt::join(cpu_seconds[i], ", "));
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  CLI::App app("All-reduce between processes on this machine");
  Plan plan;
  std::size_t least = 4 << 10;
  std::size_t most = std::size_t{256} << 20;
  app.add_option("--members", plan.members, "processes")->check(CLI::Range(2, 64));
  app.add_option("--from", least, "bytes of the smallest tensor");
  app.add_option("--to", most, "bytes of the largest; each is four times the one before");
  app.add_option("--rounds", plan.rounds, "samples of each");
  app.add_option("--way", plan.ways, "of tfos's transports only this, and tcp; may be repeated");
  CLI11_PARSE(app, argc, argv);
  for (std::size_t bytes = least; bytes <= most; bytes *= 4) plan.sizes.push_back(bytes);

  SetUpLogging("all_reduce", "WARN");
  std::vector<std::vector<GroupOptions>> of_processes(plan.members);
  for (const Way& way : Ways(plan)) {
    std::vector<GroupOptions> of_way = MakeGroup(plan.members, way);
    for (std::size_t rank = 0; rank < plan.members; ++rank) {
      of_processes[rank].push_back(std::move(of_way[rank]));
    }
  }
  std::vector<UniqueFd> left(plan.members);
  std::vector<UniqueFd> right(plan.members);
  for (std::size_t rank = 0; rank < plan.members; ++rank) {
    std::tie(right[rank], left[(rank + 1) % plan.members]) = Connected();
  }
  std::string directory = "/tmp/tfos-bench-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) Die("no temporary directory");
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < plan.members; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) Die("can't fork");
    if (child == 0) {
      RunProcess(plan, rank, std::move(of_processes[rank]), std::move(left[rank]),
                 std::move(right[rank]), directory);
      std::_Exit(0);
    }
    children.push_back(child);
  }
  bool failed = false;
  for (const pid_t child : children) {
    int ended = 0;
    ::waitpid(child, &ended, 0);
    failed = failed || ended != 0;
  }
  std::filesystem::remove_all(directory);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tfos::collective

int main(int argc, char** argv) { return tfos::collective::Main(argc, argv); }
