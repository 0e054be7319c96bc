#include "control/link/node/node_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/process/descendants.h"
#include "base/thread/guarded.h"
#include "base/thread/thread.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::control {
namespace {

/// False when the deadline came first.
Result<bool> WaitFor(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd waiting{.fd = fd, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, deadline.PollMilliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for the agent");
  }
}

[[noreturn]] void AwaitTheEnd() {
  while (true) ::pause();
}

[[noreturn]] void DieWithGroup() {
  // First those that have left the group. They are found through their parents, which still live.
  for (const pid_t below : Descendants()) ::kill(below, SIGKILL);
  // Only a group that is ours: run by hand, the node may be in somebody's shell job.
  if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
  ::kill(::getpid(), SIGKILL);
  AwaitTheEnd();
}

Status AgentGone() { return Status(ErrorKind::kReconnect, "the agent is gone"); }

}  // namespace

Result<std::unique_ptr<NodeLink>> NodeLink::FromEnvironment(Deadline deadline) {
  const char* text = std::getenv(kFdVariable);
  int fd = -1;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), fd);
  if (fd < 0 || ::fcntl(fd, F_GETFD) < 0) {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("{} names no open descriptor: only `tfos agent` starts a node", kFdVariable));
  }
  ::unsetenv(kFdVariable);  // for a child the number would mean something else
  return Open(UniqueFd(fd), deadline);
}

Result<std::unique_ptr<NodeLink>> NodeLink::Open(UniqueFd fd, Deadline deadline) {
  if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) < 0) {
    return Status::FromErrno(errno, "keep the agent's descriptor from children");
  }
  std::unique_ptr<NodeLink> link(new NodeLink(std::move(fd)));
  link->wake_.Reset(::eventfd(0, EFD_CLOEXEC));
  if (!link->wake_.valid()) return Status::FromErrno(errno, "open an eventfd");
  TFOS_RETURN_IF_ERROR(link->ReadHead(deadline).Annotate("read what the agent sent"));
  return link;
}

NodeLink::NodeLink(UniqueFd fd) : fd_(std::move(fd)), lines_(kMaxMessageBytes) {}

NodeLink::~NodeLink() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its limit.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  if (listener_.joinable()) listener_.join();
  if (caller_.joinable()) caller_.join();
  if (stacks_.thread.joinable()) stacks_.thread.join();
  if (profile_.thread.joinable()) profile_.thread.join();
}

Status NodeLink::ReadHead(Deadline deadline) {
  while (bootstrap_.empty()) {
    TFOS_ASSIGN_OR_RETURN(std::optional<std::string> line, lines_.NextLine());
    if (line.has_value()) {
      bootstrap_ = std::move(*line);
    } else {
      TFOS_RETURN_IF_ERROR(ReadMore(deadline));
    }
  }
  TFOS_ASSIGN_OR_RETURN(const NodeCommand command, ParseMessage<NodeCommand>(bootstrap_));
  const auto* head = std::get_if<NodeBootstrap>(&command);
  if (head == nullptr) return Status(ErrorKind::kBadInput, "the first message is not a bootstrap");
  heartbeat_interval_ = head->heartbeat_interval;
  const auto payload_bytes = static_cast<std::size_t>(head->payload_bytes);
  while (true) {
    payload_ += lines_.TakeRaw(payload_bytes - payload_.size());
    if (payload_.size() == payload_bytes) return Status::Ok();
    TFOS_RETURN_IF_ERROR(ReadMore(deadline));
  }
}

Status NodeLink::ReadMore(Deadline deadline) {
  TFOS_ASSIGN_OR_RETURN(const bool readable, WaitFor(fd_.get(), POLLIN, deadline));
  if (!readable) {
    return Status(ErrorKind::kRetryLater, "the agent has not sent everything in time");
  }
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0) return AgentGone();
  if (got > 0) {
    lines_.Append({buffer.data(), static_cast<std::size_t>(got)});
    return Status::Ok();
  }
  if (errno == EAGAIN || errno == EINTR) return Status::Ok();
  return errno == ECONNRESET ? AgentGone() : Status::FromErrno(errno, "read from the agent");
}

Status NodeLink::Start(Handlers handlers) {
  if (caller_.joinable()) return Status(ErrorKind::kBug, "the link was started before");
  if (::syscall(SYS_gettid) != ::getpid()) {
    return Status(ErrorKind::kBug, "the link must be started on the process's main thread");
  }
  handlers_ = std::move(handlers);
  // An earlier call may have got the process's last thread.
  if (!listener_.joinable()) {
    TFOS_RETURN_IF_ERROR(StartWork("tfos-hear-agent", &NodeLink::Listen, listener_));
  }
  TFOS_RETURN_IF_ERROR(StartWork("tfos-obey-agent", &NodeLink::CallHandlers, caller_));
  // An agent that is gone shows in Listen.
  if (Status sent = Send(SerializeMessage(Pong{})); !sent.ok()) {
    LogDebug("the agent was not told that this node answers: {}", sent.ToString());
  }
  // From here on the agent's death shows as the end of the stream, however it comes about.
  ::prctl(PR_SET_PDEATHSIG, 0);
  // Where only a process's ancestors may trace it (Yama), what the agent starts may, too: it looks
  // for the native calls of threads. Elsewhere this fails, and nothing needs it.
  ::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0);
  return Status::Ok();
}

Status NodeLink::StartWork(const char* name, void (NodeLink::*work)(), std::thread& thread) {
  TFOS_ASSIGN_OR_RETURN(thread, StartThread(name, [this, work] {
                          // A process that can't hear its agent any more is not to go on.
                          Guarded([this, work] { (this->*work)(); },
                                  [](ErrorKind, const char*) { std::terminate(); });
                        }));
  return Status::Ok();
}

void NodeLink::Listen() {
  while (true) {
    while (true) {
      Result<std::optional<std::string>> line = lines_.NextLine();
      // A stream that makes no sense any more is no better than one that has ended.
      if (!line.ok()) DieWithGroup();
      if (!line->has_value()) break;
      OnLine(**line);
    }
    std::array<pollfd, 2> waiting{{{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = wake_.get(), .events = POLLIN, .revents = 0}}};
    const int patience = owes_answer_ ? static_cast<int>(kAnswerInterval.count()) : -1;
    const int ready = ::poll(waiting.data(), waiting.size(), patience);
    if (ready < 0) continue;  // interrupted
    if (owes_answer_) AnswerPing();
    if (ready == 0) continue;
    if (waiting[1].revents != 0) return;
    if (Status more = ReadMore(Deadline::Infinite()); !more.ok()) DieWithGroup();
  }
}

void NodeLink::OnLine(const std::string& line) {
  Result<NodeCommand> command = ParseMessage<NodeCommand>(line);
  if (!command.ok()) DieWithGroup();
  if (std::holds_alternative<Ping>(*command)) {
    AnswerPing();
    return;
  }
  if (const auto* stacks = std::get_if<TellStacks>(&*command)) {
    AnswerStacks(stacks->gentle);
    return;
  }
  if (const auto* profile = std::get_if<TakeProfile>(&*command)) {
    AnswerProfile(profile->time);
    return;
  }
  if (!std::holds_alternative<StepTickets>(*command) &&
      !std::holds_alternative<EndEpoch>(*command) &&
      !std::holds_alternative<AbandonEpoch>(*command) &&
      !std::holds_alternative<EndJob>(*command) && !std::holds_alternative<EndFeed>(*command) &&
      !std::holds_alternative<NodeLeaving>(*command) &&
      !std::holds_alternative<NodeMoved>(*command) && !std::holds_alternative<Regroup>(*command) &&
      !std::holds_alternative<FormedGroup>(*command) && !std::holds_alternative<Meet>(*command) &&
      !std::holds_alternative<NoGroup>(*command)) {
    return;
  }
  bool kept = false;
  {
    const MutexLock lock(mutex_);
    kept = Keep(*std::move(command), sizeof(Waiting) + line.size());
  }
  if (!kept) {
    LogError("the agent has sent {} MiB of messages that this node has not come to: it ends",
             kMostWaitingBytes >> 20);
    DieWithGroup();
  }
  changed_.NotifyAll();
}

void NodeLink::AnswerPing() {
  // This thread must hear of the agent's end, so it waits for no room.
  const Status sent = Send(SerializeMessage(Pong{}), Deadline::After(std::chrono::seconds(0)));
  owes_answer_ = !sent.ok() && sent.kind() == ErrorKind::kRetryLater;
}

void NodeLink::ServeStacks(TellStacksOf tell) {
  const MutexLock lock(mutex_);
  tell_stacks_ = std::move(tell);
}

void NodeLink::ServeProfiles(TakeProfileOf take) {
  const MutexLock lock(mutex_);
  take_profile_ = std::move(take);
}

void NodeLink::Tell(Teller& teller, const char* name, std::function<std::string()> compose,
                    std::function<std::string(std::string)> fail) {
  if (teller.busy.exchange(true)) return;
  if (teller.thread.joinable()) teller.thread.join();  // It has nothing left to do.
  const auto answer = [this, &teller](const std::string& message) {
    // An agent that has read this answer may ask again.
    teller.busy = false;
    if (Status sent = Send(message); !sent.ok()) {
      LogDebug("what people asked for was not sent: {}", sent.ToString());
    }
  };
  Result<std::thread> started = StartThread(name, [answer, compose = std::move(compose), fail] {
    Guarded([&] { answer(compose()); }, [&](ErrorKind, const char* what) { answer(fail(what)); });
  });
  if (started.ok()) {
    teller.thread = std::move(started).value();
  } else {
    answer(fail(started.status().ToString()));
  }
}

void NodeLink::AnswerStacks(bool gentle) {
  const auto compose = [this, gentle] {
    TellStacksOf tell;
    {
      const MutexLock lock(mutex_);
      tell = tell_stacks_;
    }
    return SerializeMessage(Stacks{.text = tell ? tell(gentle) : std::string(), .gentle = gentle});
  };
  Tell(stacks_, "tfos-stacks", compose, [gentle](const std::string& why) {
    return SerializeMessage(Stacks{.text = why + "\n", .gentle = gentle});
  });
}

void NodeLink::AnswerProfile(std::chrono::milliseconds time) {
  const auto fail = [](const std::string& why) {
    return SerializeMessage(Profile{.text = why, .failed = true});
  };
  const auto compose = [this, time, fail] {
    TakeProfileOf take;
    {
      const MutexLock lock(mutex_);
      take = take_profile_;
    }
    if (!take) return fail("the node runs no Python, or has not come to it yet");
    const Result<std::string> taken = take(time);
    return taken.ok() ? SerializeMessage(Profile{.text = *taken})
                      : fail(std::string(taken.status().message()));
  };
  Tell(profile_, "tfos-ask-profile", compose, fail);
}

bool NodeLink::Keep(NodeCommand command, std::size_t bytes) {
  // A handler may block for long, and the agent sends tickets all the time.
  auto before = feed_commands_.end();
  if (const auto* tickets = std::get_if<StepTickets>(&command); tickets != nullptr) {
    before = std::ranges::find_if(feed_commands_, [&](const Waiting& waiting) {
      const auto* earlier = std::get_if<StepTickets>(&waiting.command);
      return earlier != nullptr && earlier->queue == tickets->queue &&
             earlier->epoch == tickets->epoch;
    });
  }
  if (before != feed_commands_.end()) {
    waiting_bytes_ -= before->bytes;
    *before = {.command = std::move(command), .bytes = bytes};
  } else {
    feed_commands_.push_back({.command = std::move(command), .bytes = bytes});
  }
  waiting_bytes_ += bytes;
  return waiting_bytes_ <= kMostWaitingBytes;
}

void NodeLink::CallHandlers() {
  Deadline next_metrics = Deadline::After(heartbeat_interval_);
  while (true) {
    std::vector<Waiting> commands;
    {
      const MutexLock lock(mutex_);
      while (!closing_ && feed_commands_.empty()) {
        if (!changed_.WaitUntil(mutex_, next_metrics)) break;
      }
      if (closing_) return;
      commands.swap(feed_commands_);
      waiting_bytes_ = 0;
    }
    if (handlers_.on_feed) std::ranges::for_each(commands, handlers_.on_feed, &Waiting::command);
    if (!next_metrics.passed()) continue;
    next_metrics = Deadline::After(heartbeat_interval_);
    SendMetrics();
  }
}

void NodeLink::SendMetrics() {
  const Deadline deadline = Deadline::After(kSendPatience);
  Status sent;
  if (metrics_turn_.Take({.deadline = deadline}, sent)) {
    const TurnHolder holder(metrics_turn_);
    const std::string metrics = handlers_.metrics ? handlers_.metrics() : std::string();
    if (metrics.empty()) return;
    sent = Send(fmt::format(R"({{"type":"metrics","metrics":{}}})", metrics), deadline);
  }
  if (!sent.ok()) LogDebug("metrics were not sent: {}", sent.ToString());
}

Status NodeLink::Send(std::string_view message, Deadline deadline) {
  std::string line(message);
  line += '\n';
  if (line.size() > kMaxMessageBytes) {
    return Status(ErrorKind::kBadInput, fmt::format("a message of {} bytes is over the limit of {}",
                                                    line.size(), kMaxMessageBytes));
  }
  Status late;
  if (!send_turn_.Take({.deadline = deadline}, late)) return late.Annotate("send to the agent");
  const TurnHolder holder(send_turn_);
  std::string_view before = unsent_;
  Status sent = SendRest(before, deadline);
  unsent_.erase(0, unsent_.size() - before.size());
  TFOS_RETURN_IF_ERROR(sent);
  std::string_view rest = line;
  sent = SendRest(rest, deadline);
  // What came next would continue a line that is broken off.
  if (!sent.ok() && rest.size() < line.size()) unsent_ = rest;
  return sent;
}

Status NodeLink::SendRest(std::string_view& rest, Deadline deadline) {
  if (!send_failure_.ok()) return send_failure_;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      const Result<bool> writable = WaitFor(fd_.get(), POLLOUT, deadline);
      if (!writable.ok()) {
        send_failure_ = writable.status();
      } else if (!*writable) {
        return {ErrorKind::kRetryLater, "the agent does not take messages in time"};
      }
    } else if (errno != EINTR) {
      const bool listens = listener_.joinable() && listener_.get_id() != std::this_thread::get_id();
      // The listener is ending this process and all that it has started. A program that fails
      // because of that must not end the process before.
      if (listens) AwaitTheEnd();
      send_failure_ = AgentGone();
    }
    if (!send_failure_.ok()) return send_failure_;
  }
  return Status::Ok();
}

}  // namespace tfos::control
