#ifndef TFOS_CONTROL_COORDINATOR_OPERATIONS_H_
#define TFOS_CONTROL_COORDINATOR_OPERATIONS_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "control/coordinator/roster/roster.h"
#include "control/link/server/control_service.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// What follows the question mark of a request that operates the cluster:
/// `node=1&after=17&lines=10&wait_ms=500&timeout_ms=1000&by=alice@host-a&more=1`, each of which may
/// be missing.
struct OperationQuery {
  int node_id = -1;
  std::int64_t after = -1;
  int lines = 0;
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};
  std::string by;  ///< 1 to 256 letters, digits and any of `@.-_`.
  int more = 0;    ///< 0 or 1.

  /// Bad input, naming what is wrong, for anything else.
  static Result<OperationQuery> Parse(std::string_view query);
};

/// What people ask of nodes through the coordinator, and that the cluster ends: each question
/// travels to the node's agent with a number, and its answer comes back with it. Of nodes that have
/// ended the end of their output is kept.
///
/// Owner and lifetime: the coordinator's; outlives the coroutines that use it. `roster` must be
/// there before anybody asks. Threads: those of one single-threaded executor.
/// Errors: told to those that ask.
class Operations {
 public:
  static constexpr std::size_t kMostQuestions = 256;  ///< That are open at a time.
  /// Of those that may only read, such as the page: the rest is for people who operate the cluster.
  static constexpr std::size_t kMostOfReaders = 192;
  static constexpr std::size_t kMostOfReadersAtANode = 48;   ///< Of the 64 that an agent takes.
  static constexpr std::size_t kMostKeptBytes = 16u << 20;   ///< Of nodes that have ended.
  static constexpr std::size_t kMostOfStacks = 64u << 10;    ///< Bytes, in a failure.
  static constexpr std::chrono::seconds kMostWait{10};       ///< Of a question, for news.
  static constexpr std::chrono::seconds kAgentPatience{20};  ///< Beyond what it may wait.

  struct Ways {
    /// False when the agent is not there.
    std::function<bool(int node_id, const Question& question)> to_agent;
    std::function<void(const StopAsked& asked)> to_driver;
  };

  Operations(const boost::asio::any_io_executor& executor, const std::optional<Roster>& roster,
             Ways ways)
      : executor_(executor), roster_(roster), ways_(std::move(ways)) {}

  /// The output of a node.
  boost::asio::awaitable<HttpAnswer> Output(std::string query, Asker asker);
  /// Its stacks, as far as they can be had without any risk for it.
  boost::asio::awaitable<HttpAnswer> GentleStacks(std::string query, Asker asker);
  /// `/v1/stacks`, `/v1/profile` and `/v1/stop`.
  boost::asio::awaitable<HttpAnswer> Post(std::string target, std::string query);

  /// All stacks of a node, for the coordinator itself; why they can't be had otherwise.
  boost::asio::awaitable<std::string> StacksOf(int node_id);

  /// An agent has answered, or its node has ended.
  void Take(int node_id, Answer answer);
  /// The agent's connection is gone.
  void OnGone(int node_id);
  /// The node has come, maybe again: what is kept of it is that of another process.
  void OnCame(int node_id);

 private:
  struct Pending;

  boost::asio::awaitable<HttpAnswer> Ask(int node_id, Question question, Asker asker);
  /// Whether one more may be asked about that node.
  bool HasRoom(int node_id, Asker asker) const;
  HttpAnswer Stop(const Result<OperationQuery>& query);
  /// Why a node can't be asked; nullopt if it can.
  std::optional<HttpAnswer> Refuse(const Result<OperationQuery>& query) const;
  /// The output of a node that has ended; nullopt if nothing is kept of it.
  std::optional<HttpAnswer> KeptOutput(int node_id, std::int64_t after) const;
  /// Why the node's agent is not there.
  HttpAnswer WithoutAgent(int node_id) const;

  boost::asio::any_io_executor executor_;
  const std::optional<Roster>& roster_;
  const Ways ways_;
  int next_ = 0;
  std::map<int, Pending*> pending_;       ///< By number.
  std::unordered_map<int, Answer> kept_;  ///< By node that has ended.
  std::deque<int> ended_;                 ///< Those, in the order in which they ended.
  std::size_t kept_bytes_ = 0;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_OPERATIONS_H_
