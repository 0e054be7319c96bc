#include "control/host/gpus/gpu_lease.h"

#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/process/subprocess.h"
#include "base/time/deadline.h"
#include "control/host/captured_run.h"
#include "net/unix_address.h"

namespace tfos::control {
namespace {

constexpr int kSlotsOfAGpu = 20;
constexpr std::chrono::milliseconds kLeaseInterval(100);
/// What uses the GPUs may change meanwhile, and asking costs a process.
constexpr std::chrono::seconds kListInterval(1);

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

int SlotsNeeded(const GpuRequest& request) {
  if (request.fraction <= 0.0) return kSlotsOfAGpu;
  // A share of 0.3 is a little less or more than 6 slots in binary, and yet takes 6.
  constexpr double kInexact = 1e-9;
  const double slots = request.fraction * kSlotsOfAGpu;
  if (request.assigned.empty()) return static_cast<int>(std::ceil(slots - kInexact));
  // Spark sees to it that the shares fit. Rounded up, three of 0.33 would not.
  return std::max(1, static_cast<int>(std::floor(slots + kInexact)));
}

/// A slot of the GPU, or its probe. An invalid descriptor when somebody else has it.
Result<UniqueFd> TakeName(const Gpu& gpu, std::string_view what) {
  const auto address = net::AbstractAddress(fmt::format("tfos/gpu/{}/{}", gpu.uuid, what));
  if (!address.ok()) return address.status().Annotate("the UUID of GPU " + gpu.index);
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "open a socket for a GPU lease");
  if (::bind(fd.get(), address->get(), address->size) == 0) return fd;
  if (errno == EADDRINUSE) return UniqueFd();
  return Status::FromErrno(errno, "lease GPU " + gpu.index);
}

/// What came of looking for slots of one GPU.
struct SlotsTaken {
  std::vector<UniqueFd> slots = {};  // empty when not as many as needed are free
  bool foreign = false;              // a process that is not ours uses the GPU
};

/// Takes `needed` slots of `gpu`, or none.
Result<SlotsTaken> TakeSlots(const Gpu& gpu, int needed) {
  std::vector<UniqueFd> slots;
  UniqueFd probe;
  if (gpu.in_use) {
    // Two that look for slots at the same time would take each other for the GPU's users.
    TFOS_ASSIGN_OR_RETURN(probe, TakeName(gpu, "probe"));
    if (!probe.valid()) return SlotsTaken{};
  }
  for (int slot = 0; slot < kSlotsOfAGpu; ++slot) {
    // The rest matters only where it says whose processes use the GPU.
    if (!gpu.in_use && static_cast<int>(slots.size()) == needed) break;
    TFOS_ASSIGN_OR_RETURN(UniqueFd fd, TakeName(gpu, std::to_string(slot)));
    if (fd.valid()) slots.push_back(std::move(fd));
  }
  if (gpu.in_use && slots.size() == kSlotsOfAGpu) return SlotsTaken{.foreign = true};
  if (static_cast<int>(slots.size()) < needed) return SlotsTaken{};
  slots.resize(static_cast<std::size_t>(needed));
  return SlotsTaken{.slots = std::move(slots)};
}

/// "GPU 0, 2": the index 0 alone would read as a count.
std::string OrNone(const std::vector<std::string>& gpus) {
  return gpus.empty() ? "none" : fmt::format("GPU {}", fmt::join(gpus, ", "));
}

/// What to do where others have the GPUs.
std::string Advice(const GpuRequest& request, bool foreign) {
  std::string advice = request.fraction <= 0.0
                           ? "start as many nodes as there are GPUs for, or let nodes share them "
                             "(gpu_fraction)"
                           : "start fewer nodes, or give each a smaller share (gpu_fraction)";
  if (!request.assigned.empty()) {
    advice += "; Spark counts the GPUs of a node as free once its launch task has ended";
  }
  if (foreign) advice += "; nvidia-smi shows the other processes";
  return advice;
}

std::string Describe(const GpuRequest& request) {
  if (request.fraction <= 0.0) return fmt::format("{} whole GPU(s)", request.count);
  return fmt::format("{} GPU(s) with a share of {} each", request.count, request.fraction);
}

/// The one that CUDA would take for `name`: an index, or the beginning of a UUID.
std::vector<Gpu>::const_iterator Named(const std::vector<Gpu>& gpus, std::string_view name) {
  return std::ranges::find_if(gpus, [name](const Gpu& gpu) {
    return gpu.index == name || (name.starts_with("GPU-") && gpu.uuid.starts_with(name));
  });
}

/// Those that Spark gave to the task and then those of its executor, by Spark's names. The name
/// stands for the UUID where `gpus` does not tell it.
std::vector<Gpu> GpusOfSpark(const GpuRequest& request, const std::vector<Gpu>& gpus) {
  std::vector<Gpu> found;
  const auto add = [&](const std::string& address, bool is_assigned) {
    if (std::ranges::find(found, address, &Gpu::index) != found.end()) return;
    const auto named = Named(gpus, address);
    const bool known = named != gpus.end();
    found.push_back({.index = address,
                     .uuid = known ? named->uuid : address,
                     .in_use = known && named->in_use && !is_assigned});
  };
  for (const std::string& address : request.assigned) add(address, true);
  for (const std::string& address : request.of_executor) add(address, false);
  return found;
}

/// What it prints.
boost::asio::awaitable<Result<std::string>> AskNvidiaSmi(boost::asio::any_io_executor executor,
                                                         std::string query,
                                                         std::chrono::milliseconds patience) {
  SubprocessOptions command;  // Named: GCC 12 destroys aggregates in an awaited call twice.
  command.argv = {"nvidia-smi", std::move(query), "--format=csv,noheader"};
  const Deadline deadline = Deadline::After(patience);
  Result<CapturedRun> run = co_await RunCaptured(executor, std::move(command), deadline);
  if (!run.ok() && deadline.passed()) {
    co_return Status(ErrorKind::kUnsupported,
                     fmt::format("list the GPUs: nvidia-smi did not answer within {} s: the driver "
                                 "hangs, or persistence mode is off (nvidia-smi -pm 1)",
                                 std::chrono::duration<double>(patience).count()));
  }
  if (!run.ok()) co_return run.status().Annotate("list the GPUs");
  if (!run->exit.success()) {
    co_return Status(ErrorKind::kUnsupported,
                     fmt::format("list the GPUs: nvidia-smi {}: {}", run->exit.Describe(),
                                 Trim(run->output.substr(0, run->output.find('\n')))));
  }
  co_return std::move(run->output);
}

}  // namespace

Result<std::vector<Gpu>> ParseGpuList(const std::string& text) {
  std::vector<Gpu> gpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = Trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) {
      return Status(ErrorKind::kUnsupported, fmt::format("nvidia-smi answered '{}'", line));
    }
    gpus.push_back(
        {std::string(Trim(line.substr(0, comma))), std::string(Trim(line.substr(comma + 1)))});
  }
  return gpus;
}

std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& gpus, std::string_view visible) {
  std::vector<Gpu> left;
  while (!visible.empty()) {
    const std::size_t end = std::min(visible.find(','), visible.size());
    const std::string_view name = Trim(visible.substr(0, end));
    visible.remove_prefix(std::min(end + 1, visible.size()));
    if (name.starts_with("MIG-")) {
      left.push_back({.index = std::string(name), .uuid = std::string(name)});
      continue;
    }
    const auto named = Named(gpus, name);
    if (named == gpus.end()) break;
    left.push_back(*named);
  }
  return left;
}

void MarkGpusInUse(const std::string& text, std::vector<Gpu>& gpus) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view uuid = Trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    for (Gpu& gpu : gpus) gpu.in_use = gpu.in_use || gpu.uuid == uuid;
  }
}

boost::asio::awaitable<Result<std::vector<Gpu>>> NvidiaSmiInventory::List(
    boost::asio::any_io_executor executor) {
  // Named, here and below: GCC 12 destroys aggregates in an awaited call twice.
  std::string query = "--query-gpu=index,uuid";
  Result<std::string> listed = co_await AskNvidiaSmi(executor, std::move(query), patience_);
  if (!listed.ok()) {
    if (listed.status().code().value() == ENOENT) co_return std::vector<Gpu>();
    co_return listed.status();
  }
  Result<std::vector<Gpu>> gpus = ParseGpuList(*listed);
  if (!gpus.ok()) co_return gpus.status();
  query = "--query-compute-apps=gpu_uuid";
  Result<std::string> used = co_await AskNvidiaSmi(executor, std::move(query), patience_);
  if (!used.ok()) co_return used.status();
  MarkGpusInUse(*used, *gpus);
  co_return gpus;
}

Result<GpuLease> GpuLease::Take(const GpuRequest& request, const std::vector<Gpu>& of_host) {
  GpuLease lease;
  if (request.count == 0) return lease;
  if (request.count < 0 || request.fraction < 0.0 || request.fraction >= 1.0) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a node cannot have {} GPU(s) with a share of {}: the count is 0 or "
                              "more and the share below 1, 0 meaning whole GPUs",
                              request.count, request.fraction));
  }
  const auto count = static_cast<std::size_t>(request.count);
  const bool of_spark = !request.assigned.empty();
  if (of_spark && request.assigned.size() < count) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("the node wants {} but Spark assigned {} to its task; raise "
                              "spark.task.resource.gpu.amount",
                              Describe(request), request.assigned.size()));
  }
  const std::vector<Gpu> gpus = of_spark ? GpusOfSpark(request, of_host) : of_host;
  if (gpus.size() < count) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("the node wants {} but the host has {}: ask for fewer per node "
                              "(gpu_count), or run on hosts that have them. Where "
                              "CUDA_VISIBLE_DEVICES is set for executors, others don't count",
                              Describe(request), gpus.size()));
  }
  std::vector<std::string> taken;
  std::vector<std::string> foreign;
  for (const Gpu& gpu : gpus) {
    if (lease.indices_.size() == count) break;
    TFOS_ASSIGN_OR_RETURN(SlotsTaken took, TakeSlots(gpu, SlotsNeeded(request)));
    if (took.slots.empty()) {
      (took.foreign ? foreign : taken).push_back(gpu.index);
      continue;
    }
    lease.indices_.push_back(gpu.index);
    std::move(took.slots.begin(), took.slots.end(), std::back_inserter(lease.slots_));
  }
  if (lease.indices_.size() == count) return lease;
  if (of_spark && request.may_share) {
    GpuLease shared;
    shared.shared_ = true;
    shared.indices_.assign(request.assigned.begin(),
                           request.assigned.begin() + static_cast<std::ptrdiff_t>(count));
    return shared;
  }
  return Status(ErrorKind::kRetryLater,
                fmt::format("the node wants {}; the {} has {}, of which other tfos nodes hold {} "
                            "and processes that are not of tfos use {}: {}",
                            Describe(request), of_spark ? "executor" : "host", gpus.size(),
                            OrNone(taken), OrNone(foreign), Advice(request, !foreign.empty())));
}

std::vector<int> GpuLease::descriptors() const {
  std::vector<int> descriptors;
  descriptors.reserve(slots_.size());
  for (const UniqueFd& slot : slots_) descriptors.push_back(slot.get());
  return descriptors;
}

boost::asio::awaitable<Result<GpuLease>> TakeGpus(boost::asio::any_io_executor executor,
                                                  const GpuRequest& request,
                                                  GpuInventory& inventory,
                                                  std::function<bool()> cancelled,
                                                  std::chrono::milliseconds patience) {
  const bool of_spark = !request.assigned.empty();
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::optional<Deadline> deadline;  // From the first list on, which may take longer by itself.
  Deadline listed_until = Deadline::After({});
  std::vector<Gpu> gpus;
  boost::asio::steady_timer timer(executor);
  while (true) {
    if (request.count > 0 && listed_until.passed()) {
      Result<std::vector<Gpu>> found = co_await inventory.List(executor);
      if (!found.ok() && !of_spark) co_return found.status();
      // Those of Spark have names even where nvidia-smi has none for them. But by such a name a
      // node may get what another one has by its UUID.
      const bool first = !deadline.has_value();
      if (!found.ok() && first && !cancelled()) found = co_await inventory.List(executor);
      if (found.ok()) {
        gpus = std::move(found).value();
      } else if (first) {
        LogWarning(
            "the node takes the GPUs that Spark assigned without their UUIDs, and may get one that "
            "another tfos node has: {}",
            found.status().ToString());
      }
      if (visible != nullptr && !of_spark) gpus = VisibleGpus(gpus, visible);
      listed_until = Deadline::After(kListInterval);
    }
    if (!deadline) deadline = Deadline::After(patience);
    Result<GpuLease> lease = GpuLease::Take(request, gpus);
    if (lease.ok() || lease.status().kind() != ErrorKind::kRetryLater || deadline->passed() ||
        cancelled()) {
      co_return lease;
    }
    timer.expires_after(kLeaseInterval);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

}  // namespace tfos::control
