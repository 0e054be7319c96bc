// What a coordinator says to a node, through the node's agent, which hands it on: a line for each
// message, after a byte that says whether the node has a feed from the start. Whatever it is, the
// node answers pings, its feed ends when it is told to, and what it keeps is bounded.

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "base/crypto/secret.h"
#include "base/logging.h"
#include "base/process/unique_fd.h"
#include "control/link/node/node_link.h"
#include "control/messages/node_messages.h"
#include "control/messages/node_notices.h"
#include "control/messages/parts/message_text.h"
#include "guest.h"
#include "net/socket.h"
#include "node/agent_link.h"
#include "node/node_feed.h"

namespace {

using namespace tfos;        // NOLINT(google-build-using-namespace)
using namespace tfos::node;  // NOLINT(google-build-using-namespace)

/// The agent's end of the link. Its end would end the process, so it goes last.
class Agent {
 public:
  Agent() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    ours_.Reset(ends[0]);
    node_.Reset(ends[1]);
    listener_ = std::thread([this] {
      std::array<char, 4096> room;
      while (::recv(ours_.get(), room.data(), room.size(), 0) > 0) {
      }
    });
  }
  ~Agent() { listener_.join(); }

  UniqueFd TakeNodeEnd() { return std::move(node_); }
  void Tell(std::string_view text) {
    std::string line(text);
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t sent = ::send(ours_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) std::abort();
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

 private:
  UniqueFd ours_;
  UniqueFd node_;
  std::thread listener_;
};

std::shared_ptr<NodeFeed> MakeFeed() {
  static const Secret key = Secret::Generate().value();
  auto server = feed::FeedServer::Start({.key = key,
                                         .cluster_id = "c1",
                                         .bind_address = "",
                                         .memory_budget_bytes = 256 << 10,
                                         .region_bytes = 64 << 10});
  if (!server.ok()) std::abort();
  return std::make_shared<NodeFeed>(std::move(*server));
}

void AwaitEndOfFeed(feed::FeedServer& server) {
  while (true) {
    const auto next = server.Next("input", ForLong());
    if (!next.ok()) std::abort();
    if (std::holds_alternative<feed::EndOfFeed>(*next)) return;
  }
}

void Check(const AgentLink& link, NodeFeed& feed) {
  const std::map<int, std::string> leaving = link.Leaving();
  if (leaving.size() > control::NodeNotices::kMost) std::abort();
  for (const auto& [node_id, reason] : leaving) {
    if (node_id < 0 || reason.size() > control::NodeNotices::kLongestText) std::abort();
  }
  for (const int node_id : {0, 1, 1'000'000}) {
    const auto moved = link.moved()(node_id);
    if (moved && moved->address.size() > control::NodeNotices::kLongestText) std::abort();
  }
  for (const int generation : {0, 1, 1'000'000}) {
    (void)link.generations()->Check(generation).ok();
  }
  // Of the first generation every other one is the next, so this never waits.
  (void)link.generations()->AwaitNext({}, {}).ok();
  for (const std::uint32_t epoch : {0U, 1U, 7U}) {
    const auto grant =
        feed.steps().Await("input", epoch, [](const feed::StepGrant&) { return true; },
                           {.deadline = Deadline::After({})});
    if (grant.ok() && (grant->queue != "input" || grant->epoch != epoch)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool from_the_start = data[0] % 2 == 0;
  std::string_view script(reinterpret_cast<const char*>(data + 1), size - 1);
  Agent agent;
  control::NodeBootstrap bootstrap;
  bootstrap.job_name = "worker";
  bootstrap.heartbeat_interval = std::chrono::hours(1);
  agent.Tell(control::SerializeMessage(bootstrap));
  auto opened = control::NodeLink::Open(agent.TakeNodeEnd(), ForLong().deadline);
  if (!opened.ok()) std::abort();
  auto link = AgentLink::Start(std::move(*opened));
  if (!link.ok()) std::abort();
  SetUpLogging("fuzz", "OFF");
  const std::shared_ptr<NodeFeed> feed = MakeFeed();
  if (from_the_start) (*link)->Attach(feed);
  while (!script.empty()) {
    const std::string_view line = script.substr(0, script.find('\n'));
    script.remove_prefix(std::min(script.size(), line.size() + 1));
    // Of anything else the agent dies, and the node with it.
    if (control::ParseMessage<control::NodeCommand>(line).ok()) agent.Tell(line);
  }
  agent.Tell(control::SerializeMessage(control::EndFeed{}));
  if (!from_the_start) (*link)->Attach(feed);
  AwaitEndOfFeed(feed->server());
  Check(**link, *feed);
  link->reset();
  return 0;
}
