#include "control/agent/node_process.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <optional>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/process/process_state.h"
#include "base/time/deadline.h"
#include "base/time/seconds_text.h"
#include "control/link/spawn.h"

namespace tfos::control {

namespace asio = boost::asio;

namespace {

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

/// A process that has left the node's group may hold its socket open for ever.
constexpr std::chrono::seconds kLastWordsPatience(1);

}  // namespace

NodeProcess::NodeProcess(const asio::any_io_executor& executor, UniqueFd input, UniqueFd output,
                         std::chrono::milliseconds answer_timeout, RepeatedWarnings& warnings,
                         Events events)
    : executor_(executor),
      warnings_(warnings),
      events_(std::move(events)),
      lines_(executor, std::move(input), std::move(output)),
      answers_(answer_timeout),
      said_all_(executor) {}

Result<std::unique_ptr<NodeProcess>> NodeProcess::Start(const asio::any_io_executor& executor,
                                                        Options options, ExecutorLog& log,
                                                        RepeatedWarnings& warnings, Events events) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    return Status::FromErrno(errno, "open a socket pair to the node");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  UniqueFd ours_too(::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0));
  if (!ours_too.valid()) return Status::FromErrno(errno, "open a socket pair to the node");
  options.process.environment->push_back(fmt::format("TFOS_AGENT_FD={}", theirs.get()));
  options.process.keep_fds.push_back(theirs.get());

  std::unique_ptr<NodeProcess> node(new NodeProcess(executor, std::move(ours), std::move(ours_too),
                                                    options.answer_timeout, warnings,
                                                    std::move(events)));
  NodeProcess* const self = node.get();
  TFOS_ASSIGN_OR_RETURN(
      node->child_,
      SupervisedChild::Start(executor, std::move(options.process), log, [self](ExitStatus exit) {
        self->Go("end with the node", self->End(exit));
      }));
  node->child_->WatchOutput(node->events_.on_output);
  node->Send(options.bootstrap);
  node->lines_.Send(std::move(options.payload));
  node->Go("follow the node", node->Follow());
  node->Go("watch whether the node answers", node->WatchAnswers());
  return node;
}

void NodeProcess::Go(std::string what, asio::awaitable<void> coroutine) {
  Spawn(executor_, what, std::move(coroutine), [this, what](const Status& failure) {
    events_.on_failure(Failing(what, failure.ToString()));
  });
}

void NodeProcess::Send(const StepTickets& tickets) {
  std::string line = SerializeMessage(tickets) + '\n';
  const std::size_t bytes = line.size();
  lines_.SendLatest(
      fmt::format("{} {} {}", StepTickets::kType, tickets.queue, tickets.epoch),
      [line = std::move(line)] { return line; }, bytes);
}

asio::awaitable<void> NodeProcess::Follow() {
  while (true) {
    Result<std::optional<std::string>> line = co_await lines_.ReadLine();
    if (line.ok() && !line->has_value()) break;
    Result<NodeMessage> message =
        line.ok() ? ParseMessage<NodeMessage>(**line) : Result<NodeMessage>(line.status());
    if (!message.ok() && (!line.ok() || !IsJsonObject(**line))) {
      events_.on_failure(
          Failing("follow the node",
                  "the node sent something other than messages: " + message.status().ToString()));
      break;
    }
    if (!message.ok()) {
      warnings_.Log("a bad message of the node is ignored: " + message.status().ToString());
      continue;
    }
    if (!Take(*message)) events_.on_message(std::move(*message));
  }
  said_all_.Open();
}

bool NodeProcess::Take(const NodeMessage& message) {
  if (std::holds_alternative<Pong>(message)) {
    answers_.OnAnswer();
    return true;
  }
  // From then on it has its time to leave.
  const bool last = std::holds_alternative<Done>(message);
  if (last || std::holds_alternative<FailureMessage>(message)) answers_.OnLastWord();
  return false;
}

asio::awaitable<void> NodeProcess::WatchAnswers() {
  asio::steady_timer timer(executor_);
  while (!child_->ended()) {
    timer.expires_after(answers_.interval());
    co_await timer.async_wait(kNoThrow);
    if (answers_.Look(Clock::Steady().Now())) Send(Ping{});
    if (answers_.out_of_patience() && !child_->ended()) OnSilence();
  }
}

void NodeProcess::OnSilence() {
  const Result<ProcessState> state = ReadProcessState(child_->pid());
  if (state.ok() && state->dumping_core) {
    // It ends by itself, and its signal says more.
    warnings_.Log("the node's process does not answer: " + DescribeStandstill(*state));
    answers_.Excuse();
    return;
  }
  if (std::exchange(said_silent_, true)) return;
  EventDetails details = Failing(
      "answer its agent",
      fmt::format(
          "the node's process (pid {}) has given no sign of life for {}: {}. It was {}. Look for "
          "the reason on its host. If the node is to be patient there, with a debugger for one, "
          "raise spark.tfos.node.answerTimeout (0: no limit)",
          child_->pid(), SecondsText(std::chrono::floor<std::chrono::seconds>(answers_.silence())),
          state.ok() ? DescribeStandstill(*state) : std::string(state.status().message()),
          events_.doing()),
      /*lost=*/true);
  details.grace = kNoGrace;
  events_.on_failure(details);
}

asio::awaitable<void> NodeProcess::End(ExitStatus exit) {
  co_await said_all_.Wait(Deadline::After(kLastWordsPatience));
  if (exit.left_behind) {
    const Result<ProcessState> state = ReadProcessState(child_->pid());
    events_.on_failure(
        Failing("end",
                fmt::format("the node's process (pid {}) can't be killed: {}. It is left there, "
                            "with its memory and GPUs; its host may need a restart",
                            child_->pid(),
                            state.ok() ? DescribeStandstill(*state) : state.status().ToString()),
                /*lost=*/true));
  }
  events_.on_end(exit);
}

}  // namespace tfos::control
