#include "parameter_server/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "base/memory/shared_memory.h"
#include "net/ack_watch.h"
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::parameter_server {
namespace {

/// The digits of a name that nobody can guess.
constexpr std::size_t kNameDigits = 32;
/// For a client that wants something else than those before it.
constexpr std::string_view kWhatServersKeep =
    "Parameter servers keep one set of variables and one optimizer until the cluster ends";

}  // namespace

std::string LocalName(const Secret& key, std::string_view id, std::uint32_t number,
                      std::uint16_t port) {
  const Secret name =
      DeriveSecret(key, fmt::format("tfos parameter server {} {} {}", id, number, port));
  return "tfos-ps-" + name.ToHex().substr(0, kNameDigits);
}

struct Server::Client {
  Client(net::Connection made, std::uint64_t number)
      : connection(std::move(made.stream), made.channel == net::Channel::kLocal), id(number) {}

  Connection connection;
  net::AckWatch acks;
  const std::uint64_t id;
  std::string name = "a client";
  bool opened = false;
  bool waits_for_start = false;
  bool starts = false;                ///< Gives the first values where nobody has a copy.
  std::uint64_t gives = kNotStarted;  ///< The version of its copy.
  std::optional<std::uint32_t> staleness;
  SharedMemory region;
  std::uint64_t link = 0;  ///< As it names it; 0: not at all.
  LinkPushes pushes;
  bool commits = false;  ///< Has pushed, and waits for others.
  std::string told_of;   ///< Whom it was told that it waits for.
  Status ended;          ///< Why it is to be dropped.

  /// A client reads its answer before it is heard again.
  bool heard() const { return !commits && !waits_for_start && !connection.sending(); }
  bool may_give() const { return waits_for_start && (starts || gives != kNotStarted); }
  /// It has said something that polling does not show.
  bool has_said() const { return heard() && connection.holds_bytes(); }
};

Result<std::unique_ptr<Server>> Server::Create(ServerOptions options) {
  std::unique_ptr<Server> server(new Server(std::move(options)));
  ServerOptions& given = server->options_;
  const auto accepts = [number = given.number](const net::Numbers& numbers) -> Status {
    if (numbers.accepting == number) return {};
    return {ErrorKind::kBadInput,
            fmt::format("it looks for server {}, and this is {}", numbers.accepting, number)};
  };
  TFOS_ASSIGN_OR_RETURN(
      server->acceptor_,
      net::Acceptor::Create(
          {.party = {.protocol = kProtocol, .key = given.key, .encryption = given.encryption},
           .what = fmt::format("parameter server {}", given.number),
           .accepts = accepts,
           .most_strangers = net::Acceptor::AsManyAsDescriptorsAllow()}));
  // Before clients get through over TCP: those of this host are to find the other one.
  if (!given.local_name.empty()) {
    TFOS_ASSIGN_OR_RETURN(UniqueFd local, net::ListenUnix(given.local_name));
    TFOS_RETURN_IF_ERROR(server->acceptor_->Listen(std::move(local)));
  }
  TFOS_RETURN_IF_ERROR(net::ListenOn(given.listener.get(), "for workers"));
  TFOS_RETURN_IF_ERROR(server->acceptor_->Listen(std::move(given.listener)));
  server->stop_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->stop_.valid()) return Status::FromErrno(errno, "open an eventfd");
  return server;
}

Server::Server(ServerOptions options) : options_(std::move(options)) {}

Server::~Server() = default;

void Server::Stop() {
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its limit.
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
}

Status Server::Run() {
  std::vector<pollfd> entries;
  while (true) {
    entries.clear();
    const auto watch = [&entries](int fd, short events) {
      entries.push_back({.fd = fd, .events = events, .revents = 0});
    };
    watch(stop_.get(), POLLIN);
    watch(acceptor_->fd(), POLLIN);
    const std::size_t others = entries.size();
    bool at_once = false;
    for (const Client& client : clients_) {
      const int events = client.connection.sending() ? POLLOUT : client.heard() ? POLLIN : 0;
      watch(client.connection.fd(), static_cast<short>(events | POLLRDHUP));
      // One may have been given up since the last look at those that have ended.
      at_once = at_once || client.has_said() || !client.ended.ok();
    }
    const int milliseconds = PollMilliseconds();
    if (::poll(entries.data(), entries.size(), at_once ? 0 : milliseconds) < 0) {
      if (errno == EINTR) continue;
      return Status::FromErrno(errno, "wait for workers");
    }
    if (entries[0].revents != 0) return {};
    std::size_t entry = others;
    for (Client& client : clients_) {
      const int ready = entries[entry++].revents | (client.has_said() ? POLLIN : 0);
      // One that has come anew over another connection says nothing more over this one.
      if (ready != 0 && client.ended.ok()) Serve(client, static_cast<short>(ready));
    }
    for (auto it = clients_.begin(); it != clients_.end();) {
      if (!it->ended.ok()) Leave(*it);
      it = it->ended.ok() ? std::next(it) : clients_.erase(it);
    }
    AnswerWaiting();
    CountBytes();
    if (entries[1].revents == 0) continue;
    for (net::Guest& guest : acceptor_->Progress()) {
      clients_.emplace_back(std::move(guest.connection), ++next_id_);
    }
    accept_pauses_ = acceptor_->pauses();
  }
}

int Server::PollMilliseconds() {
  Deadline look = Deadline::Infinite();
  const Clock::TimePoint now = Clock::Steady().Now();
  if (EndCutOff()) look = Deadline::After(next_look_ - now);
  if (LooksForGiver()) look = look.Min(Deadline::After(*choose_at_ - now));
  return look.PollMilliseconds();
}

void Server::Serve(Client& client, short ready) {
  Status status;
  if (client.connection.sending()) {
    status = client.connection.Flush();
  } else if ((ready & POLLIN) != 0) {
    status = client.connection.Receive(
        [&](const Header& header, std::span<const std::byte> body,
            std::span<const std::byte> data) { return OnMessage(client, header, body, data); });
    if (status.ok()) status = client.connection.Flush();
  } else if ((ready & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0) {
    status = {ErrorKind::kReconnect, "the connection has ended"};
  }
  if (!status.ok()) client.ended = std::move(status);
}

bool Server::EndCutOff() {
  const auto remote = [](const Client& client) { return !client.connection.local(); };
  if (std::ranges::none_of(clients_, remote)) return false;
  const Clock::TimePoint now = Clock::Steady().Now();
  if (now < next_look_) return true;
  next_look_ = now + net::kAckInterval;
  for (Client& client : clients_) {
    if (!remote(client) || !client.ended.ok()) continue;
    Status there = net::CheckAcknowledged(client.acks, client.connection.fd());
    if (there.ok()) continue;
    LogWarning("gave up the connection of {}: {}", client.name, there.ToString());
    client.ended = std::move(there);
  }
  return true;
}

void Server::CountBytes() {
  std::uint64_t received = closed_received_;
  std::uint64_t sent = closed_sent_;
  for (const Client& client : clients_) {
    received += client.connection.bytes_received();
    sent += client.connection.bytes_sent();
  }
  bytes_received_ = received;
  bytes_sent_ = sent;
}

Status Server::OnMessage(Client& client, const Header& header, std::span<const std::byte> body,
                         std::span<const std::byte> data) {
  if (header.type == MessageType::kOpen) return OnOpen(client, body);
  if (!client.opened) return {ErrorKind::kBadInput, "the first message is not OPEN"};
  switch (header.type) {
    case MessageType::kPush:
      return OnPush(client, body, data);
    case MessageType::kCommit:
      return OnCommit(client, body);
    case MessageType::kRead:
      return OnRead(client, body);
    case MessageType::kWrite:
      return OnWrite(body, data);
    case MessageType::kStart:
      return OnStart(client, body);
    default:
      return {ErrorKind::kBadInput, "a message that only servers send"};
  }
}

Status Server::OnOpen(Client& client, std::span<const std::byte> body) {
  if (client.opened) return {ErrorKind::kBadInput, "a second OPEN"};
  TFOS_ASSIGN_OR_RETURN(Open open, ParseOpen(body));
  client.name = open.name;
  client.staleness = open.staleness;
  if (store_ == nullptr) {
    TFOS_ASSIGN_OR_RETURN(store_, Store::Create(std::move(open.share), open.rule));
    values_bytes_ = store_->bytes();
    LogInfo("{} bytes of variables, as {} has them", store_->bytes(), client.name);
  } else {
    TFOS_RETURN_IF_ERROR(CheckSame(open));
  }
  if (open.region_bytes > 0) {
    if (open.region_bytes != store_->bytes()) {
      return {ErrorKind::kBadInput, "memory that is not as large as the share"};
    }
    TFOS_ASSIGN_OR_RETURN(client.region,
                          SharedMemory::Map(client.connection.TakePassed(), open.region_bytes,
                                            /*writable=*/false));
  }
  TakeLink(client, open.link);
  client.opened = true;
  client.starts = open.starts && options_.returns;
  client.gives = open.gives;
  ++workers_;
  if (!store_->started() && (!open.starts || options_.returns)) {
    client.waits_for_start = true;
    if (!choose_at_ && client.may_give()) {
      choose_at_ = Clock::Steady().Now() + options_.patience_for_copies;
    }
    return {};
  }
  return TellOpened(client);
}

void Server::TakeLink(Client& client, std::uint64_t link) {
  if (link == 0) return;
  for (Client& older : clients_) {
    if (older.link != link) continue;
    // What is left to read of it comes again.
    PutLink(older);
    if (older.ended.ok()) older.ended = {ErrorKind::kReconnect, "it has connected anew"};
  }
  client.link = link;
  client.pushes = gone_links_.Take(link);
}

void Server::PutLink(Client& client) {
  client.pushes.clock = std::max(client.pushes.clock, clocks_.clock(client.id));
  clocks_.Leave(client.id);
  const bool has_pushed = client.pushes.committed > 0 || client.pushes.step > 0;
  if (client.link != 0 && has_pushed) gone_links_.Put(client.link, client.pushes);
  client.link = 0;
}

Status Server::CheckSame(const Open& open) const {
  const std::vector<Variable>& first = store_->layout().variables();
  const auto what = [](const Variable& variable) {
    return std::pair(variable.dtype, variable.elements);
  };
  if (!std::ranges::equal(open.share, first, {}, what, what)) {
    return {ErrorKind::kBadInput,
            fmt::format("{} has other variables than the first worker: all must name the same "
                        "ones, in the same order. {}",
                        open.name, kWhatServersKeep)};
  }
  if (open.share != first) {
    return {ErrorKind::kBadInput,
            fmt::format("{} has the variables of the first worker, but others of them are "
                        "trainable. {}",
                        open.name, kWhatServersKeep)};
  }
  if (open.rule != store_->rule()) {
    return {ErrorKind::kBadInput,
            fmt::format("{} uses another combiner or optimizer than the first worker; all must use "
                        "the same. {}",
                        open.name, kWhatServersKeep)};
  }
  return {};
}

Status Server::TellOpened(Client& client) {
  client.waits_for_start = false;
  UniqueFd memory;
  if (client.connection.local()) {
    TFOS_ASSIGN_OR_RETURN(memory, store_->memory().OpenForReading());
  }
  const std::uint64_t version = store_->started() ? store_->version() : kNotStarted;
  client.connection.Send(Encode(Opened{.version = version,
                                       .pushes = client.pushes.committed,
                                       .combined = client.pushes.combined}),
                         std::move(memory));
  return {};
}

bool Server::LooksForGiver() const {
  return store_ != nullptr && !store_->started() && giver_ == 0 &&
         std::ranges::any_of(clients_, &Client::may_give);
}

void Server::ChooseGiver() {
  if (!LooksForGiver()) return;
  const auto waiting = std::ranges::count_if(clients_, &Client::waits_for_start);
  const std::uint32_t workers = store_->rule().workers;
  const bool all = workers > 0 && waiting >= static_cast<std::ptrdiff_t>(workers);
  const Clock::TimePoint now = Clock::Steady().Now();
  if (!all && now < *choose_at_) return;
  choose_at_ = now;  // Where this one dies, the next is asked at once.
  // None, all ones, counts as the lowest.
  const auto copy = [](const Client& client) {
    return std::pair(client.may_give(), client.gives + 1);
  };
  Client& best = *std::ranges::max_element(clients_, {}, copy);
  if (best.gives == kNotStarted) {
    LogInfo("no worker has a copy of the lost values, so {} gives the first ones", best.name);
  } else {
    LogInfo("{} of {} workers have come, and {} gives its values of version {}", waiting, workers,
            best.name, best.gives);
  }
  giver_ = best.id;
  store_->ClearSlots();
  if (Status told = TellOpened(best); !told.ok()) best.ended = std::move(told);
}

Status Server::OnPush(Client& client, std::span<const std::byte> body,
                      std::span<const std::byte> data) {
  TFOS_ASSIGN_OR_RETURN(const Range range, ParseRange(body));
  if (!store_->started()) return {ErrorKind::kBadInput, "a push before there are values"};
  std::span<const std::byte> pushed = data;
  if (!range.data_follow) {
    const std::span<const std::byte> region = client.region.bytes();
    if (range.begin > region.size() || range.bytes > region.size() - range.begin) {
      return {ErrorKind::kBadInput, "a push of what is not in the shared memory"};
    }
    pushed = region.subspan(range.begin, range.bytes);
  }
  LinkPushes& pushes = client.pushes;
  if (range.begin != pushes.combined) {
    return {ErrorKind::kBadInput, "a push that does not go on where it was"};
  }
  if (pushes.step == 0) pushes.step = store_->BeginPush();
  // Not before: a worker that only reads, or has nothing to push yet, keeps nobody waiting.
  if (client.staleness) clocks_.Join(client.id, client.name, pushes.clock);
  TFOS_RETURN_IF_ERROR(store_->Push(pushes.step, range.begin, pushed));
  bytes_combined_ += pushed.size();
  pushes.combined += pushed.size();
  return {};
}

Status Server::OnCommit(Client& client, std::span<const std::byte> body) {
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t number, ParseVersion(body));
  LinkPushes& pushes = client.pushes;
  if (pushes.step != 0 && number == pushes.committed + 1) {
    pushes.step = 0;
    pushes.combined = 0;
    ++pushes.committed;
    store_->FinishPush();
    ++pushes_;
    clocks_.Advance(client.id);
  } else if (pushes.step == 0 && number != 0 && number == pushes.committed) {
    // It was committed before, and the answer was lost with the connection.
    if (client.staleness) clocks_.Join(client.id, client.name, pushes.clock);
  } else {
    return {ErrorKind::kBadInput, "COMMIT of another push than the one under way"};
  }
  client.commits = true;  // AnswerWaiting answers.
  client.told_of.clear();
  return {};
}

Status Server::OnRead(Client& client, std::span<const std::byte> body) {
  TFOS_ASSIGN_OR_RETURN(Range range, ParseRange(body));
  range.data_follow = true;
  range.version = store_->version();
  if (range.bytes > kMostDataBytes) return {ErrorKind::kBadInput, "a read of too much at a time"};
  TFOS_ASSIGN_OR_RETURN(const auto data, store_->Read(range.part, range.begin, range.bytes));
  client.connection.Send(Encode(MessageType::kValues, range), data);
  return {};
}

Status Server::OnWrite(std::span<const std::byte> body, std::span<const std::byte> data) {
  TFOS_ASSIGN_OR_RETURN(const Range range, ParseRange(body));
  if (!range.data_follow) return {ErrorKind::kBadInput, "WRITE without data"};
  return store_->Write(range.part, range.begin, data);
}

Status Server::OnStart(Client& client, std::span<const std::byte> body) {
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t version, ParseVersion(body));
  store_->StartAt(version);
  client.connection.Send(EncodeVersion(MessageType::kStarted, version));
  return {};
}

void Server::AnswerWaiting() {
  ChooseGiver();
  for (Client& client : clients_) {
    Status status;
    if (client.waits_for_start && store_->started()) {
      status = TellOpened(client);
    } else if (client.commits) {
      const auto slower =
          client.staleness ? clocks_.WaitsFor(client.id, *client.staleness) : std::nullopt;
      if (!slower) {
        client.commits = false;
        client.connection.Send(EncodeVersion(MessageType::kCommitted, store_->version()));
      } else if (slower->name != client.told_of) {
        client.told_of = slower->name;
        client.connection.Send(Encode(Waiting{.clock = clocks_.clock(client.id),
                                              .other_clock = slower->clock,
                                              .name = slower->name}));
      }
    }
    if (status.ok() && client.connection.sending()) status = client.connection.Flush();
    if (!status.ok()) client.ended = std::move(status);
  }
}

void Server::Leave(Client& client) {
  const Status& why = client.ended;
  const bool asked = why.kind() == ErrorKind::kReconnect;
  Log(asked ? LogLevel::kDebug : LogLevel::kWarning, "{}: {}", client.name, why.ToString());
  if (!asked) {
    client.connection.Send(Encode(Failed{.kind = why.kind(), .text = why.ToString()}));
    static_cast<void>(client.connection.Flush().ok());  // If it can't be told, it is gone.
  }
  if (client.opened) --workers_;
  if (client.id == giver_) giver_ = 0;
  PutLink(client);
  closed_received_ += client.connection.bytes_received();
  closed_sent_ += client.connection.bytes_sent();
}

ServerCounters Server::counters() const {
  return {.workers = workers_,
          .pushes = pushes_,
          .bytes_received = bytes_received_,
          .bytes_sent = bytes_sent_,
          .bytes_combined = bytes_combined_,
          .values_bytes = values_bytes_,
          .accept_pauses = accept_pauses_};
}

}  // namespace tfos::parameter_server
