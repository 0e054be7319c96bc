#include "parameter_server/server_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/thread/guarded.h"
#include "base/thread/thread.h"
#include "net/ack_watch.h"
#include "net/handshake/handshake.h"
#include "net/handshake/reach.h"
#include "net/own_unix.h"
#include "net/poll.h"
#include "net/socket.h"

namespace tfos::parameter_server {
namespace {

/// To connect to a server that may run elsewhere by now.
constexpr std::chrono::seconds kPatienceOfAttempt{10};
/// Ranges that are asked for before the first has come.
constexpr int kReadsAhead = 4;
/// Messages of a server that reads no more, among which it may say why.
constexpr int kMostLastWords = 16;

Status Gone() {
  return {
      ErrorKind::kReconnect,
      "the connection to it has ended: its process or its host is gone, or the network was cut"};
}

/// That no other link has.
Result<std::uint64_t> RandomNumber() {
  TFOS_ASSIGN_OR_RETURN(const std::string hex, RandomHex(sizeof(std::uint64_t)));
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return number;
}

Status UnexpectedReply() {
  return {ErrorKind::kBug, "the server sent an unexpected kind of reply"};
}

Status Late() {
  return {ErrorKind::kRetryLater,
          "no values within the deadline: the first worker, which gives them, has not come"};
}

}  // namespace

Result<std::unique_ptr<ServerLink>> ServerLink::Connect(Options options) {
  std::unique_ptr<ServerLink> link(new ServerLink(std::move(options)));
  TFOS_ASSIGN_OR_RETURN(link->options_.open.link, RandomNumber());
  link->BeginToWait();
  TFOS_RETURN_IF_ERROR(link->About(link->OpenFirst()));
  // What follows has no end in time: a server that is there answers.
  link->options_.wait = {.check = [raw = link.get()] { return raw->CheckOnThread(); }};
  TFOS_ASSIGN_OR_RETURN(link->thread_,
                        StartThread("tfos-ps-link", [raw = link.get()] { raw->Work(); }));
  return link;
}

ServerLink::~ServerLink() {
  Abort();
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

Status ServerLink::ConnectSocket() {
  const net::Party party{
      .protocol = kProtocol, .key = options_.key, .encryption = options_.server.encryption};
  const net::Numbers numbers{.connecting = options_.worker, .accepting = options_.number};
  return net::Reach(options_.wait, [&](bool& connected) -> Status {
    Wait wait = options_.wait;
    if (options_.find) {
      server_ = options_.find();
      // It may run elsewhere before the kernel gives up a host that is gone.
      wait.deadline = wait.deadline.Min(Deadline::After(kPatienceOfAttempt));
    }
    const ServerAddress& server = server_;
    std::optional<UniqueFd> socket;
    if (!server.local_name.empty()) {
      TFOS_ASSIGN_OR_RETURN(socket, net::ConnectOwnUnix(server.local_name, wait));
    }
    if (!socket) {
      // A server reads at once whatever comes.
      TFOS_ASSIGN_OR_RETURN(
          socket, net::ConnectTcp(server.address, server.port, wait, net::kUnacknowledgedLimit));
    }
    connected = true;
    TFOS_ASSIGN_OR_RETURN(net::Connection connection,
                          net::ShakeHands(std::move(*socket), party, numbers, wait));
    local_socket_ = connection.channel == net::Channel::kLocal;
    const MutexLock lock(mutex_);
    stream_ = std::move(connection.stream);
    return {};
  });
}

Status ServerLink::OpenStore(const Copy& copy) {
  parameter_server::Open& open = options_.open;
  // The caller fills one memory, wherever the server comes again.
  if (outgoing_.empty() && local_socket_) {
    TFOS_ASSIGN_OR_RETURN(region_, SharedMemory::Create(kMemoryName, options_.share_bytes,
                                                        SharedMemory::Writers::kCreator));
    outgoing_ = region_.bytes();
  } else if (outgoing_.empty()) {
    own_ = std::make_unique<std::byte[]>(options_.share_bytes);
    outgoing_ = {own_.get(), options_.share_bytes};
  }
  open.region_bytes = shares_region() ? options_.share_bytes : 0;
  open.gives = copy.version;
  const std::string message = Encode(open);
  std::span<const std::byte> rest = std::as_bytes(std::span(message));
  if (shares_region()) {
    TFOS_ASSIGN_OR_RETURN(const net::Transfer sent,
                          net::Send(stream_->fd(), rest, {}, region_.fd()));
    rest = rest.subspan(sent.bytes);
  }
  TFOS_RETURN_IF_ERROR(SendAll(rest));
  UniqueFd memory;
  TFOS_ASSIGN_OR_RETURN(const Header header, Receive(&memory));
  if (header.type != MessageType::kOpened) return UnexpectedReply();
  TFOS_ASSIGN_OR_RETURN(const Opened opened, ParseOpened(std::as_bytes(std::span(body_))));
  const std::uint64_t version = opened.version;
  view_.reset();
  if (local_socket_) {
    TFOS_ASSIGN_OR_RETURN(view_, StoreView::Map(std::move(memory), options_.share_bytes));
  }
  local_ = local_socket_;
  TFOS_RETURN_IF_ERROR(GoOnFrom(opened));
  if (version == kNotStarted && copy.version != kNotStarted) return Give(copy);
  if (version == kNotStarted && !open.starts) {
    return {ErrorKind::kBug, "the server wants values of a client that has none"};
  }
  version_ = version;
  return {};
}

void ServerLink::Start(const Job& job) {
  {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return;
    job_ = job;
    filled_ = 0;
  }
  changed_.NotifyAll();
}

void ServerLink::Filled(std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    filled_ = bytes;
  }
  changed_.NotifyAll();
}

bool ServerLink::WaitFor(std::chrono::milliseconds time) {
  const Deadline deadline = Deadline::After(time);
  const MutexLock lock(mutex_);
  while (job_.has_value() && changed_.WaitUntil(mutex_, deadline)) {
  }
  return !job_.has_value();
}

void ServerLink::Work() {
  while (true) {
    Job job;
    {
      const MutexLock lock(mutex_);
      while (!closing_ && !job_.has_value()) changed_.Wait(mutex_);
      if (closing_) return;
      job = *job_;
    }
    Status status;
    // The caller waits for the job's end, however it comes about.
    Guarded([&] { status = About(Do(job)); },
            [&](ErrorKind kind, const char* what) { status = Status(kind, what); });
    {
      const MutexLock lock(mutex_);
      status_ = std::move(status);
      job_.reset();
    }
    changed_.NotifyAll();
  }
}

void ServerLink::BeginToWait() {
  waiting_.reset();
  began_at_ = Clock::Steady().Now();
}

Status ServerLink::Do(const Job& job) {
  BeginToWait();
  combined_ = false;
  sent_ = 0;
  resume_at_ = 0;
  Status done = HasMoved() ? Gone() : Attempt(job);
  while (!done.ok() && ComesAgain(done)) {
    TFOS_RETURN_IF_ERROR(AwaitReturn(job, done));
    done = Attempt(job);
  }
  TFOS_RETURN_IF_ERROR(done);
  const Status copied = job.part == 0 ? CopySlots() : Status();
  return ComesAgain(copied) ? Status() : copied;  // The next job finds it lost.
}

Status ServerLink::Attempt(const Job& job) {
  if (job.push && !combined_) TFOS_RETURN_IF_ERROR(PushFilled());
  if (job.pull.empty()) return {};
  return job.part == 0 ? Pull(job.pull) : ReadShare(job.part, 0, job.pull);
}

Status ServerLink::PushFilled() {
  std::uint64_t pushed = resume_at_;
  while (pushed < outgoing_.size()) {
    std::uint64_t filled = 0;
    {
      const MutexLock lock(mutex_);
      while (!closing_ && filled_ <= pushed) changed_.Wait(mutex_);
      if (closing_) return {ErrorKind::kReconnect, "this end was closed"};
      filled = filled_;
    }
    while (pushed < filled) {
      const std::uint64_t bytes = std::min<std::uint64_t>(filled - pushed, kMostDataBytes);
      const Range range{.data_follow = !shares_region(), .begin = pushed, .bytes = bytes};
      sent_ = std::max(sent_, pushed + bytes);
      TFOS_RETURN_IF_ERROR(SendText(Encode(MessageType::kPush, range)));
      if (range.data_follow) TFOS_RETURN_IF_ERROR(SendAll(outgoing_.subspan(pushed, bytes)));
      pushed += bytes;
    }
  }
  TFOS_RETURN_IF_ERROR(SendText(EncodeVersion(MessageType::kCommit, pushes_ + 1)));
  TFOS_ASSIGN_OR_RETURN(version_, AwaitVersion(MessageType::kCommitted));
  combined_ = true;
  ++pushes_;
  sent_ = 0;
  return {};
}

Status ServerLink::Pull(std::span<std::byte> to) {
  if (!view_) return ReadShare(0, 0, to);
  // Before the values: they are at least as new.
  TFOS_RETURN_IF_ERROR(CheckConnected());
  version_ = view_->version();
  Clock::TimePoint say_at = began_at_ + options_.stall_after;
  return view_->Copy(to, [&]() -> Status {
    TFOS_RETURN_IF_ERROR(CheckConnected());
    TFOS_RETURN_IF_ERROR(CheckOnThread());
    if (Clock::Steady().Now() < say_at) return {};
    say_at += options_.stall_after;
    TellOfStall();
    return {};
  });
}

Status ServerLink::ReadShare(std::uint8_t part, std::uint64_t from, std::span<std::byte> to) {
  std::uint64_t asked = 0;
  std::uint64_t got = 0;
  const auto ask = [&]() -> Status {
    const std::uint64_t bytes = std::min<std::uint64_t>(to.size() - asked, kMostDataBytes);
    if (bytes == 0) return {};
    const Range range{.part = part, .begin = from + asked, .bytes = bytes};
    asked += bytes;
    return SendText(Encode(MessageType::kRead, range));
  };
  for (int i = 0; i < kReadsAhead; ++i) TFOS_RETURN_IF_ERROR(ask());
  while (got < to.size()) {
    TFOS_ASSIGN_OR_RETURN(const Header header, Receive());
    TFOS_ASSIGN_OR_RETURN(const Range range, ParseRange(std::as_bytes(std::span(body_))));
    if (header.type != MessageType::kValues || range.begin != from + got || range.part != part ||
        range.bytes == 0 || range.bytes > asked - got) {
      return {ErrorKind::kBug, "values that were not asked for"};
    }
    // The version of the first range counts: the others are at least as new.
    if (got == 0 && part == 0) version_ = range.version;
    TFOS_RETURN_IF_ERROR(ReceiveAll(to.subspan(got, range.bytes)));
    got += range.bytes;
    TFOS_RETURN_IF_ERROR(ask());
  }
  return {};
}

Status ServerLink::Write(std::uint8_t part, std::span<const std::byte> from) {
  TFOS_RETURN_IF_ERROR(status());
  BeginToWait();
  return About(WriteShare(part, from));
}

Status ServerLink::WriteShare(std::uint8_t part, std::span<const std::byte> from) {
  for (std::uint64_t begin = 0; begin < from.size(); begin += kMostDataBytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(from.size() - begin, kMostDataBytes);
    const Range range{.part = part, .data_follow = true, .begin = begin, .bytes = bytes};
    TFOS_RETURN_IF_ERROR(SendText(Encode(MessageType::kWrite, range)));
    TFOS_RETURN_IF_ERROR(SendAll(from.subspan(begin, bytes)));
  }
  return {};
}

Status ServerLink::StartAt(std::uint64_t version) {
  TFOS_RETURN_IF_ERROR(status());
  BeginToWait();
  TFOS_RETURN_IF_ERROR(About(SendText(EncodeVersion(MessageType::kStart, version))));
  const auto started = AwaitVersion(MessageType::kStarted);
  if (started.ok()) version_ = *started;
  return About(started.status());
}

void ServerLink::Abort() {
  aborted_ = true;
  const MutexLock lock(mutex_);
  if (stream_ != nullptr) ::shutdown(stream_->fd(), SHUT_RDWR);
}

Status ServerLink::SendText(const std::string& message) {
  return SendAll(std::as_bytes(std::span(message)));
}

Status ServerLink::SendAll(std::span<const std::byte> data) {
  Status sent = net::SendAll(*stream_, data, options_.wait);
  // Unless it is gone there is nothing to hear from it.
  if (sent.ok() || sent.kind() != ErrorKind::kReconnect) return sent;
  // It may have said why before it closed the connection.
  for (int i = 0; i < kMostLastWords; ++i) {
    const auto said = Receive();
    if (!said.ok()) return said.status();
  }
  return sent;
}

Result<net::Transfer> ServerLink::ReceiveInto(std::span<std::byte> room, UniqueFd* passed) {
  return local_socket_ ? net::Receive(stream_->fd(), room, passed) : stream_->Receive(room);
}

Status ServerLink::ReceiveAll(std::span<std::byte> room, UniqueFd* passed) {
  const Clock::Duration stall = options_.stall_after;
  while (!room.empty()) {
    // Also of a server that never stops talking.
    if (options_.wait.deadline.passed()) return Late();
    const auto got = ReceiveInto(room, passed);
    if (!got.ok() && got.status().kind() != ErrorKind::kReconnect) return got.status();
    if (!got.ok() || got->ended) return Gone();
    room = room.subspan(got->bytes);
    if (!got->blocked) continue;
    // Only to say in the log whom this waits for; the server's end shows at once.
    const Wait wait{.deadline = options_.wait.deadline.Min(Deadline::After(stall)),
                    .check = options_.wait.check};
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(stream_->fd(), POLLIN, wait));
    if (ready == 0 && !options_.wait.deadline.passed()) TellOfStall();
  }
  return {};
}

Result<Header> ServerLink::Receive(UniqueFd* passed) {
  while (true) {
    std::byte head[kHeaderBytes];
    TFOS_RETURN_IF_ERROR(ReceiveAll(head, passed));
    TFOS_ASSIGN_OR_RETURN(const Header header, ParseHeader(head));
    body_.resize(header.bytes);
    TFOS_RETURN_IF_ERROR(ReceiveAll(std::as_writable_bytes(std::span(body_)), passed));
    const auto body = std::as_bytes(std::span(body_));
    if (header.type == MessageType::kFailed) {
      TFOS_ASSIGN_OR_RETURN(const Failed failed, ParseFailed(body));
      return Status(failed.kind, failed.text);
    }
    if (header.type != MessageType::kWaiting) return header;
    TFOS_ASSIGN_OR_RETURN(waiting_, ParseWaiting(body));
    combined_ = true;  // It waits with that.
  }
}

Result<std::uint64_t> ServerLink::AwaitVersion(MessageType type) {
  TFOS_ASSIGN_OR_RETURN(const Header header, Receive());
  if (header.type != type) return UnexpectedReply();
  return ParseVersion(std::as_bytes(std::span(body_)));
}

Status ServerLink::CheckConnected() const {
  std::byte one;
  const ssize_t got = ::recv(stream_->fd(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return {};
  return Gone();
}

void ServerLink::TellOfStall() {
  const double seconds = std::chrono::duration<double>(Clock::Steady().Now() - began_at_).count();
  if (lost_) {
    LogWarning(
        "{} has waited {:.0f} s for parameter server {}, which was lost, to come again and get the "
        "values of a worker",
        options_.open.name, seconds, server_.name);
  } else if (waiting_) {
    LogWarning("{} has waited {:.0f} s at push {} for {}, which is at push {}", options_.open.name,
               seconds, waiting_->clock, waiting_->name, waiting_->other_clock);
  } else if (version_ == kNotStarted && !options_.open.starts) {
    LogWarning(
        "{} has waited {:.0f} s for the first values, which the first worker (the chief) gives "
        "parameter server {}",
        options_.open.name, seconds, server_.name);
  } else {
    LogWarning("{} has waited {:.0f} s for parameter server {}", options_.open.name, seconds,
               server_.name);
  }
}

Status ServerLink::About(Status status) const {
  if (status.ok()) return status;
  if (aborted_) return {ErrorKind::kReconnect, "this client of the parameter servers was closed"};
  return status.Annotate(fmt::format("parameter server {}", server_.name));
}

}  // namespace tfos::parameter_server
