#include "feed/feeder/client/feed_client.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/memory/crc32c.h"
#include "base/process/unique_fd.h"
#include "feed/feeder/client/feed_client_impl.h"
#include "feed/wire/frame.h"
#include "feed/wire/read_position.h"
#include "net/ack_watch.h"
#include "net/handshake/handshake.h"
#include "net/own_unix.h"
#include "net/poll.h"
#include "net/socket.h"

namespace tfos::feed {
namespace {

/// A host that is gone is to be noticed before the wait for progress is over. Here only, as the
/// node reads at once whatever comes, and a task may take its results slowly.
constexpr std::chrono::seconds kUnansweredLimit = net::kUnacknowledgedLimit;

/// Before the second handshake; twice as long before each further one.
constexpr std::chrono::milliseconds kFirstPause{20};

/// A socket of the node: the Unix socket if that is there, else TCP.
Result<UniqueFd> ConnectSocket(const Endpoint& endpoint, const Wait& wait) {
  const bool tcp = !endpoint.host.empty() && endpoint.port != 0;
  if (!endpoint.unix_name.empty()) {
    TFOS_ASSIGN_OR_RETURN(std::optional<UniqueFd> local,
                          tcp ? net::ConnectOwnUnix(endpoint.unix_name, wait)
                              : net::ConnectOnlyOwnUnix(endpoint.unix_name, wait));
    if (local) return *std::move(local);
  }
  if (tcp) {
    return net::ConnectTcp(endpoint.host, endpoint.port, wait, kUnansweredLimit);
  }
  return Status(ErrorKind::kReconnect, "nobody listens there any more");
}

Result<net::Connection> ConnectOnce(const Endpoint& endpoint, const net::Party& party,
                                    const net::Numbers& numbers, const Wait& wait, bool& hung_up) {
  TFOS_ASSIGN_OR_RETURN(UniqueFd fd, ConnectSocket(endpoint, wait));
  Result<net::Connection> connection = net::ShakeHands(std::move(fd), party, numbers, wait);
  hung_up = !connection.ok() && connection.status().kind() == ErrorKind::kReconnect;
  return connection;
}

Result<net::Connection> ConnectTo(const Endpoint& endpoint, const net::Party& party,
                                  const net::Numbers& numbers, int handshakes, const Wait& wait) {
  std::chrono::milliseconds pause = kFirstPause;
  for (int tried = 1;; ++tried, pause *= 2) {
    bool hung_up = false;
    Result<net::Connection> connection = ConnectOnce(endpoint, party, numbers, wait, hung_up);
    if (!hung_up) return connection;
    if (tried >= handshakes) {
      return connection.status().Annotate(
          fmt::format("it hung up {} times in the handshake (its log says why)", tried));
    }
    const Wait moment{.deadline = Deadline::After(pause).Min(wait.deadline), .check = wait.check};
    TFOS_RETURN_IF_ERROR(net::Poll(-1, 0, moment).status());
  }
}

}  // namespace

Result<Counted> FeedClient::Impl::Count(const PartitionKey& key, AttemptId attempt, Ask what) {
  if (!queue_.empty() || counting_) {
    return Status(ErrorKind::kBadInput, "a feed client counts before it opens");
  }
  counting_ = true;
  TFOS_RETURN_IF_ERROR(Send(
      Encode(CountMessage{.key = key, .attempt = attempt, .chunks = what == Ask::kChunks}), {}));
  TFOS_RETURN_IF_ERROR(
      WaitFor([&] { return !counting_; }, "did not say which rows of the partition it has"));
  return std::exchange(counted_, {});
}

Status FeedClient::Impl::BeginOpen(const SessionOptions& session) {
  if (!queue_.empty() || session.queue.empty()) {
    return Status(ErrorKind::kBadInput, "a feed client opens one partition of a named queue, once");
  }
  queue_ = session.queue;
  until_read_ = session.until_read;
  checksums_ = session.mode == Mode::kTrain;
  return Send(Encode(session), {});
}

Result<Opened> FeedClient::Impl::Open(const SessionOptions& session) {
  TFOS_RETURN_IF_ERROR(BeginOpen(session));
  TFOS_RETURN_IF_ERROR(WaitFor([&] { return opened_ || stopped_; }, "had no memory to give"));
  if (stopped_) return Opened{.feed_over = true};
  return Opened{};
}

Result<std::span<std::byte>> FeedClient::Impl::Reserve(std::size_t bytes) {
  if (!stopped_ && (!opened_ || end_sent_ || bytes == 0)) {
    return Status(ErrorKind::kBadInput, "Reserve needs an open partition and at least one byte");
  }
  reserved_ = 0;
  // The node's last word is to be noticed also while there is room.
  if (!stopped_) TFOS_RETURN_IF_ERROR(ReadSome().status());
  if (!stopped_ && bytes > ring_.capacity()) TFOS_RETURN_IF_ERROR(Grow(bytes));
  std::optional<std::uint64_t> offset;
  TFOS_RETURN_IF_ERROR(WaitFor([&] { return stopped_ || (offset = ring_.Find(bytes)).has_value(); },
                               "took no chunk"));
  if (stopped_) return std::span<std::byte>();
  if (!shares_memory() && local_.size() < bytes) {
    local_ = AlignedBuffer();
    local_ = AlignedBuffer(bytes);
    if (local_.size() < bytes) {
      return Status(ErrorKind::kNoResources,
                    fmt::format("no memory for a chunk of {} bytes", bytes));
    }
  }
  if (shares_memory()) {
    TFOS_RETURN_IF_ERROR(region_->Allocate(*offset + bytes).Annotate("write a chunk for " + node_));
  }
  offset_ = *offset;
  reserved_ = bytes;
  return shares_memory() ? region_->memory().subspan(offset_, bytes) : local_.bytes().first(bytes);
}

Status FeedClient::Impl::Grow(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(
      WaitFor([&] { return stopped_ || ring_.in_flight() == 0; }, "took no chunk"));
  TFOS_RETURN_IF_ERROR(BeginGrow(bytes));
  return WaitFor([&] { return stopped_ || !growing_; }, "had no memory to give");
}

Status FeedClient::Impl::BeginGrow(std::size_t bytes) {
  if (stopped_ || growing_) return {};
  if (!opened_ || end_sent_ || ring_.in_flight() > 0) {
    return {ErrorKind::kBadInput, "a partition grows while it is open and has no chunk under way"};
  }
  if (bytes <= ring_.capacity()) return {};
  if (!shares_memory() && bytes > kDataLimit) {
    return {ErrorKind::kUnsupported,
            fmt::format("a chunk of {} bytes; over TCP at most {} fit", bytes, kDataLimit)};
  }
  region_.reset();
  growing_ = true;
  return Send(EncodeGrow(bytes), {});
}

Status FeedClient::Impl::Commit(std::size_t bytes, const ItemRange& items,
                                std::uint64_t rows_read) {
  if (stopped_) return {};
  if (bytes == 0 || bytes > reserved_) {
    return {ErrorKind::kBadInput,
            fmt::format("Commit of {} bytes where {} are reserved", bytes, reserved_)};
  }
  reserved_ = 0;
  const std::optional<std::uint64_t> number = ring_.Place(offset_, bytes);
  if (!number) return {ErrorKind::kBug, "the room that was reserved is not free"};
  items_ += items.items();
  const std::span<const std::byte> chunk =
      shares_memory() ? region_->memory().subspan(offset_, bytes) : local_.bytes().first(bytes);
  const std::uint32_t checksum = checksums_ ? Crc32c(chunk) : 0;
  const Status sent = shares_memory() ? Send(Encode(ChunkMessage{.offset = offset_,
                                                                 .bytes = bytes,
                                                                 .first = items.begin,
                                                                 .items = items.items(),
                                                                 .rows_read = rows_read,
                                                                 .checksum = checksum}),
                                             {})
                                      : Send(EncodeDataHead({.offset = offset_,
                                                             .first = items.begin,
                                                             .items = items.items(),
                                                             .rows_read = rows_read,
                                                             .checksum = checksum},
                                                            static_cast<std::uint32_t>(bytes)),
                                             chunk);
  // Whether or not it went out. Not before: a credit that comes too early must not free it.
  if (until_read_) {
    sent_.push_back({.number = *number,
                     .bytes = chunk,
                     .copy = std::move(local_),
                     .items = items,
                     .rows_read = rows_read});
    local_ = AlignedBuffer();
  }
  return sent;
}

std::vector<UnreadChunk> FeedClient::Impl::Unread() const {
  ReadPosition read;
  if (region_ != nullptr) {
    read = ReadPosition::Unpack(region_->read_position().load(std::memory_order_acquire));
  }
  std::vector<UnreadChunk> unread;
  for (const Sent& sent : sent_) {
    if (sent.number < read.chunk) continue;
    const std::uint64_t rows = sent.number == read.chunk ? read.rows : 0;
    unread.push_back(
        {.bytes = sent.bytes, .items = sent.items, .rows_read = std::max(rows, sent.rows_read)});
  }
  return unread;
}

Result<std::size_t> FeedClient::Impl::FreeBytes() {
  for (bool progressed = true; progressed && !stopped_;) {
    TFOS_ASSIGN_OR_RETURN(progressed, ReadSome());
  }
  return stopped_ ? 0 : static_cast<std::size_t>(ring_.LargestFree());
}

Result<std::optional<ResultChunk>> FeedClient::Impl::TakeResult(bool block) {
  const auto done = [&] { return !results_.empty() || ended_ || stopped_; };
  if (block) TFOS_RETURN_IF_ERROR(WaitFor(done, "gave no result"));
  for (bool progressed = true; progressed && !done();) {
    TFOS_ASSIGN_OR_RETURN(progressed, ReadSome());
  }
  if (results_.empty()) return std::optional<ResultChunk>();
  std::optional<ResultChunk> result(std::move(results_.front()));
  results_.pop_front();
  return result;
}

Status FeedClient::Impl::End() {
  if (stopped_ || std::exchange(end_sent_, true)) return {};
  return Send(EncodeEnd(items_), {});
}

Result<Ended> FeedClient::Impl::Finish() {
  TFOS_RETURN_IF_ERROR(End());
  TFOS_RETURN_IF_ERROR(WaitFor([&] { return ended_ || stopped_; }, "did not finish the partition"));
  if (!ended_) return Ended{.stopped = true};
  return Ended{.accepted_items = ended_->items, .result_rows = ended_->rows};
}

// ---------------------------------------------------------------------------------------------

FeedClient::FeedClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FeedClient::~FeedClient() = default;

Result<std::unique_ptr<FeedClient>> FeedClient::Connect(const Endpoint& endpoint, const Secret& key,
                                                        FeedClientOptions options,
                                                        const Deadline& deadline) {
  const Wait wait{.deadline = deadline, .check = options.check};
  Result<net::Connection> connection = ConnectTo(
      endpoint, {.protocol = kFeedProtocol, .key = key, .encryption = options.encryption},
      {.connecting = options.number, .accepting = endpoint.node_id}, options.handshakes, wait);
  if (!connection.ok()) {
    return connection.status().Annotate(
        fmt::format("connect to the feed of {}", Impl::NameOf(endpoint)));
  }
  return Over(std::move(*connection), endpoint, std::move(options));
}

std::unique_ptr<FeedClient> FeedClient::Over(net::Connection connection, const Endpoint& endpoint,
                                             FeedClientOptions options) {
  return std::unique_ptr<FeedClient>(
      new FeedClient(std::make_unique<Impl>(endpoint, std::move(options), std::move(connection))));
}

net::Channel FeedClient::channel() const { return impl_->channel(); }
Result<Opened> FeedClient::Open(const SessionOptions& session) { return impl_->Open(session); }
Result<Counted> FeedClient::Count(const PartitionKey& key, AttemptId attempt, Ask what) {
  return impl_->Count(key, attempt, what);
}
Status FeedClient::BeginOpen(const SessionOptions& session) { return impl_->BeginOpen(session); }
bool FeedClient::opened() const { return impl_->opened(); }
Result<std::span<std::byte>> FeedClient::Reserve(std::size_t bytes) {
  return impl_->Reserve(bytes);
}
Status FeedClient::BeginGrow(std::size_t bytes) { return impl_->BeginGrow(bytes); }
Status FeedClient::Commit(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read) {
  return impl_->Commit(bytes, items, rows_read);
}
std::vector<UnreadChunk> FeedClient::Unread() const { return impl_->Unread(); }
std::optional<AcceptedBytes> FeedClient::accepted() const { return impl_->accepted(); }
Result<std::size_t> FeedClient::FreeBytes() { return impl_->FreeBytes(); }
Result<std::optional<ResultChunk>> FeedClient::TakeResult(bool block) {
  return impl_->TakeResult(block);
}
Status FeedClient::End() { return impl_->End(); }
Result<Ended> FeedClient::Finish() { return impl_->Finish(); }
bool FeedClient::stopped() const { return impl_->stopped(); }
int FeedClient::fd() const { return impl_->fd(); }

}  // namespace tfos::feed
