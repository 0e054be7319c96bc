#ifndef TFOS_CONTROL_LINK_NODE_NODE_LINK_H_
#define TFOS_CONTROL_LINK_NODE_NODE_LINK_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/text/line_buffer.h"
#include "base/thread/mutex.h"
#include "base/thread/turn.h"
#include "base/time/deadline.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/shared_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// A node process's end of the socket pair to its agent (docs/formats/control-protocol.md, "Agent
/// -> node" and "Node -> agent").
///
/// Owner and lifetime: one object for the life of the process. While it exists the agent's death
/// kills the process and its group at once. Destroy it only when the node may outlive its agent.
/// Threads: two of its own once started. One reads, so that nothing the program does (holding
/// Python's interpreter lock, for one) delays the kill; the other calls the handlers.
/// `Send` may be called from any thread.
/// It answers the agent's pings on the first one, too: they ask for the process, not the program.
/// One more lives as long as somebody wants to know the program's stacks, or has it profiled.
/// Errors: sending fails with reconnect once the agent is gone, shortly before the kill.
class NodeLink {
 public:
  /// Called on the link's second thread, `metrics` also where SendMetrics is; each one at a time,
  /// and without a mutex. They may block: then later calls of the same one wait. `stop` has none:
  /// TERM follows it, which programs can handle.
  struct Handlers {
    /// What concerns the feed (`end_epoch`, `abandon_epoch`, `end_job`, `step_tickets`,
    /// `end_feed`), the group (`regroup`, `group`, `meet`, `no_group`), and other nodes (`leaving`,
    /// `moved`), in the order it came. Of an epoch's `step_tickets` that wait for a handler only
    /// the latest is kept. More than kMostWaitingBytes that wait end the process.
    std::function<void(const NodeCommand& command)> on_feed;
    /// The node's metrics as a JSON object, asked for once a heartbeat interval; empty text:
    /// nothing new, nothing is sent.
    std::function<std::string()> metrics;
  };

  /// As lines, with what it takes to keep each. An agent that says more while a handler is busy is
  /// broken.
  static constexpr std::size_t kMostWaitingBytes = std::size_t{64} << 20;

  /// The environment variable that holds the descriptor's number.
  static constexpr const char* kFdVariable = "TFOS_AGENT_FD";

  /// Takes the descriptor that the agent left in the environment; bad input when this process was
  /// not started by an agent.
  static Result<std::unique_ptr<NodeLink>> FromEnvironment(Deadline deadline);

  /// Takes `fd` and reads the bootstrap and the payload. The descriptor is not handed on to
  /// children.
  static Result<std::unique_ptr<NodeLink>> Open(UniqueFd fd, Deadline deadline);

  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  /// The bootstrap message, as it came.
  const std::string& bootstrap() const { return bootstrap_; }
  /// Gives the payload away.
  std::string TakePayload() { return std::move(payload_); }

  /// Starts to listen. Call it once, on the process's main thread: the kernel's own guard, which
  /// would kill this process but not its group, is tied to that thread and is lifted here. It may
  /// be called again when the process had no thread to spare (retry-later).
  Status Start(Handlers handlers);

  /// From now on `tell` says what the threads of the node's program are at, when people ask: on a
  /// thread of its own, one at a time. It may take seconds. `gentle`: it must not do anything that
  /// could harm the process.
  using TellStacksOf = std::function<std::string(bool gentle)>;
  void ServeStacks(TellStacksOf tell);

  using TakeProfileOf = std::function<Result<std::string>(std::chrono::milliseconds time)>;
  /// From now on `take` says where the threads of the node's program spend the time to come, as
  /// ServeStacks has it. What it returns is the text of a Profile.
  void ServeProfiles(TakeProfileOf take);

  /// Asks for the metrics and sends them now instead of at the next heartbeat, after those that
  /// another thread has asked for; a handler that is busy with the feed delays it in no way.
  /// Metrics that can't be sent within kSendPatience are left out. Once started; don't call it from
  /// `metrics`.
  void SendMetrics();

  /// Sends one message, a line feed is added. When the agent is gone (reconnect), the link sends
  /// nothing any more. When the deadline comes while the agent takes none of it, or another thread
  /// still sends, the message is not sent (retry-later). Of one that was begun, the rest is sent
  /// before the next one; the caller is told that, too (retry-later).
  Status Send(std::string_view message, Deadline deadline = Deadline::After(kSendPatience));

 private:
  static constexpr std::chrono::seconds kSendPatience{30};

  /// How often a ping that could not be answered is looked at again.
  static constexpr std::chrono::milliseconds kAnswerInterval{50};

  explicit NodeLink(UniqueFd fd);

  Status ReadHead(Deadline deadline);
  Status ReadMore(Deadline deadline);
  Status StartWork(const char* name, void (NodeLink::*work)(), std::thread& thread);
  void Listen();
  void OnLine(const std::string& line);
  /// Without waiting: while the agent takes nothing, the answer is owed.
  void AnswerPing();
  /// Sends what it can of `rest`, and leaves the rest.
  Status SendRest(std::string_view& rest, Deadline deadline) TFOS_REQUIRES(send_turn_);
  /// False when more waits than may.
  bool Keep(NodeCommand command, std::size_t bytes) TFOS_REQUIRES(mutex_);
  void CallHandlers();
  /// For what takes its time to find out. Of the listener.
  struct Teller {
    std::atomic<bool> busy = false;  ///< What is asked meanwhile gets that answer.
    std::thread thread;
  };
  /// Sends what `compose` returns, from a thread of its own; of an exception what `fail` makes of
  /// its text.
  void Tell(Teller& teller, const char* name, std::function<std::string()> compose,
            std::function<std::string(std::string why)> fail);
  void AnswerStacks(bool gentle);
  void AnswerProfile(std::chrono::milliseconds time);

  UniqueFd fd_;
  UniqueFd wake_;  // an eventfd that ends Listen
  LineBuffer lines_;
  std::string bootstrap_;
  std::string payload_;
  std::chrono::milliseconds heartbeat_interval_{0};

  Turn send_turn_;
  Status send_failure_ TFOS_GUARDED_BY(send_turn_);
  std::string unsent_ TFOS_GUARDED_BY(send_turn_);  // of a line that was begun
  bool owes_answer_ = false;                        // to a ping; of the thread that listens

  Mutex mutex_;
  CondVar changed_;
  struct Waiting {
    NodeCommand command;
    std::size_t bytes = 0;
  };
  std::vector<Waiting> feed_commands_ TFOS_GUARDED_BY(mutex_);  // for the handler
  std::size_t waiting_bytes_ TFOS_GUARDED_BY(mutex_) = 0;       // of those
  bool closing_ TFOS_GUARDED_BY(mutex_) = false;

  Handlers handlers_;  // From Start on nobody changes them.
  Turn metrics_turn_;  // Until they are sent: older ones must not come after newer ones.

  TellStacksOf tell_stacks_ TFOS_GUARDED_BY(mutex_);
  TakeProfileOf take_profile_ TFOS_GUARDED_BY(mutex_);

  std::thread listener_;
  std::thread caller_;
  Teller stacks_;
  Teller profile_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_NODE_NODE_LINK_H_
