#include "control/link/server/tunnels.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/time/deadline.h"
#include "control/link/async_latch.h"

namespace tfos::control {

struct Tunnels::Awaited {
  int node_id;
  AsyncLatch has_come;
  std::unique_ptr<net::Stream> stream = nullptr;
};

boost::asio::awaitable<std::unique_ptr<net::Stream>> Tunnels::Open(ControlService& service) {
  if (awaited_.size() >= kMost) co_return nullptr;
  const int number = next_;
  next_ = next_ == std::numeric_limits<int>::max() ? 0 : next_ + 1;
  const std::optional<int> node_id = service.AskForTunnel(number);
  if (!node_id.has_value()) co_return nullptr;
  Awaited awaited{.node_id = *node_id, .has_come = AsyncLatch(executor_)};
  awaited_[number] = &awaited;
  co_await awaited.has_come.Wait(Deadline::After(kPatience));
  awaited_.erase(number);
  co_return std::move(awaited.stream);
}

void Tunnels::Take(int number, int node_id, std::unique_ptr<net::Stream> stream) {
  const auto awaited = awaited_.find(number);
  if (awaited == awaited_.end() || awaited->second->node_id != node_id) return;
  awaited->second->stream = std::move(stream);
  awaited->second->has_come.Open();
}

}  // namespace tfos::control
