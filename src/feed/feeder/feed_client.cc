#include "feed/feeder/feed_client.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "base/time/seconds_text.h"
#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"
#include "feed/wire/read_position.h"
#include "feed/wire/region.h"
#include "feed/wire/ring.h"
#include "net/socket.h"

namespace tfos::feed {
namespace {

/// A host that is gone is to be noticed before the wait for progress is over. Here only, as the
/// node reads at once whatever comes, and a task may take its results slowly.
constexpr std::chrono::seconds kUnansweredLimit{60};

std::string NodeName(const Endpoint& endpoint) {
  return endpoint.host.empty() ? fmt::format("node {}", endpoint.node_id)
                               : fmt::format("node {} on host {}", endpoint.node_id, endpoint.host);
}

}  // namespace

class FeedClient::Impl {
 public:
  Impl(const Endpoint& endpoint, FeedClientOptions options, UniqueFd fd)
      : node_(NodeName(endpoint)), options_(std::move(options)), fd_(std::move(fd)) {
    reader_.set_limits({.data = 0, .result = 0, .error = 0});
  }

  Status Authenticate(const Secret& token, std::uint32_t node_id, const Deadline& deadline);
  bool shares_memory() const { return shares_memory_; }
  Result<Counted> Count(const PartitionKey& key, const Attempt& attempt);
  Status BeginOpen(const SessionOptions& session);
  bool opened() const { return opened_.has_value() && !stopped_; }
  Result<Opened> Open(const SessionOptions& session);
  Result<std::span<std::byte>> Reserve(std::size_t bytes);
  Status Commit(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read);
  std::vector<UnreadChunk> Unread() const;
  std::optional<std::uint64_t> accepted_bytes() const { return accepted_bytes_; }
  Result<std::size_t> FreeBytes();
  Result<std::optional<ResultChunk>> TakeResult(bool block);
  Status End();
  Result<Ended> Finish();
  bool stopped() const { return stopped_; }
  int fd() const { return fd_.get(); }

 private:
  /// A chunk that the node has not given back. Kept only if the session lasts until all is read.
  struct Sent {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;
    AlignedBuffer copy;  ///< Over TCP.
    ItemRange items;
    std::uint64_t rows_read = 0;
  };

  /// Reads what has arrived, at most one buffer full. False: nothing was there.
  Result<bool> ReadSome();
  Status OnEvent(FrameReader::Event event);
  Status OnMessage();
  Status OnOpened(const OpenedMessage& opened);
  Status OnRegion(std::uint64_t bytes);
  Status UseRegion(std::uint64_t bytes);
  /// Reads messages until `done`. `what` completes "node 3 ... for 600 s".
  template <typename Done>
  Status WaitFor(Done done, std::string_view what);
  /// Reads what is there, or waits for more. False: the deadline has passed.
  Result<bool> ReadOrWait(const Deadline& deadline, bool* progressed);
  Status Send(std::string_view head, std::span<const std::byte> payload);
  Status LastWord(const Status& cause);
  Status Grow(std::size_t bytes);
  Status Gone(const Status& cause) const;
  Status NoProgress(std::string_view what) const;
  Deadline Patience() const { return Deadline::After(options_.progress_timeout); }

  const std::string node_;
  const FeedClientOptions options_;
  UniqueFd fd_;
  FrameReader reader_;
  UniqueFd passed_;  ///< Came with the last bytes; belongs to the next OPENED or REGION.
  bool shares_memory_ = false;

  // Authentication.
  std::optional<Challenge> challenge_;
  std::optional<Welcome> welcome_;

  // The partition.
  bool counting_ = false;  ///< COUNT is sent, and not all of the answer is there.
  Counted counted_;
  std::string queue_;
  bool until_read_ = false;
  std::deque<Sent> sent_;
  std::optional<std::uint64_t> accepted_bytes_;
  std::optional<OpenedMessage> opened_;
  std::unique_ptr<Region> region_;  ///< Null over TCP.
  AlignedBuffer local_;             ///< Over TCP: where Reserve lets the caller write.
  Ring ring_{0};
  std::size_t reserved_ = 0;
  std::uint64_t offset_ = 0;  ///< Of what is reserved.
  std::uint64_t items_ = 0;
  bool growing_ = false;
  bool end_sent_ = false;
  bool stopped_ = false;
  std::optional<EndedMessage> ended_;
  std::deque<ResultChunk> results_;

  // The payload being received.
  ResultChunk incoming_;
  std::string error_text_;
};

Status FeedClient::Impl::Gone(const Status& cause) const {
  std::string text = fmt::format("{} closed the feed connection (it died or was stopped)", node_);
  return cause.ok() ? Status(ErrorKind::kReconnect, std::move(text))
                    : Status(ErrorKind::kReconnect, fmt::format("{}: {}", text, cause.ToString()));
}

Status FeedClient::Impl::NoProgress(std::string_view what) const {
  return {ErrorKind::kRetryLater,
          fmt::format("{} {} for {} (it holds {} chunk{} of this feeder); its program is busy or "
                      "stuck: look at the node's log, or raise feed_timeout if a step takes that "
                      "long",
                      node_, what, SecondsText(options_.progress_timeout), ring_.in_flight(),
                      ring_.in_flight() == 1 ? "" : "s")};
}

Result<bool> FeedClient::Impl::ReadSome() {
  const std::span<std::byte> space = reader_.Space();
  const Result<net::Transfer> transfer = net::Receive(fd_.get(), space, &passed_);
  if (!transfer.ok()) return Gone(transfer.status());
  if (transfer->ended) return Gone({});
  if (transfer->blocked) return false;
  reader_.Filled(transfer->bytes);
  for (;;) {
    Result<FrameReader::Event> event = reader_.Next();
    if (!event.ok()) return event.status().Annotate(fmt::format("read what {} said", node_));
    if (*event == FrameReader::Event::kNone) return true;
    TFOS_RETURN_IF_ERROR(OnEvent(*event));
  }
}

Status FeedClient::Impl::OnEvent(FrameReader::Event event) {
  const MessageType type = reader_.type();
  switch (event) {
    case FrameReader::Event::kMessage:
      return OnMessage();
    case FrameReader::Event::kPayloadBegin: {
      if (type == MessageType::kError) {
        error_text_.resize(reader_.payload_bytes());
        reader_.SetTarget(std::as_writable_bytes(std::span(error_text_)));
        return {};
      }
      if (type != MessageType::kResult || !opened_) break;
      TFOS_ASSIGN_OR_RETURN(incoming_.rows, ParseU64(reader_.body()));
      incoming_.bytes = AlignedBuffer(reader_.payload_bytes());
      if (incoming_.bytes.size() != reader_.payload_bytes()) {
        return {ErrorKind::kRetryLater,
                fmt::format("no memory for a result of {} bytes", reader_.payload_bytes())};
      }
      reader_.SetTarget(incoming_.bytes.bytes());
      return {};
    }
    case FrameReader::Event::kPayloadEnd:
      if (type == MessageType::kError) {
        return Status(ErrorKind::kBadInput, std::move(error_text_)).Annotate(node_);
      }
      results_.push_back(std::move(incoming_));
      incoming_ = {};
      return {};
    case FrameReader::Event::kNone:
      return {};
  }
  return {ErrorKind::kBadInput,
          fmt::format("an unexpected {} message from {}", MessageTypeName(type), node_)};
}

Status FeedClient::Impl::OnMessage() {
  const std::span<const std::byte> body = reader_.body();
  switch (reader_.type()) {
    case MessageType::kChallenge: {
      if (challenge_) break;
      TFOS_ASSIGN_OR_RETURN(challenge_, ParseChallenge(body));
      return {};
    }
    case MessageType::kWelcome: {
      if (!challenge_ || welcome_) break;
      TFOS_ASSIGN_OR_RETURN(welcome_, ParseWelcome(body));
      return {};
    }
    case MessageType::kCounted: {
      if (!counting_) break;
      TFOS_ASSIGN_OR_RETURN(const CountedMessage counted, ParseCounted(body));
      for (const ItemRange& range : counted.ranges) counted_.ranges.Add(range);
      counted_.accepted_bytes = counted.accepted_bytes;
      counting_ = counted.more;
      return {};
    }
    case MessageType::kOpened: {
      if (!welcome_ || opened_) break;
      TFOS_ASSIGN_OR_RETURN(opened_, ParseOpened(body));
      return OnOpened(*opened_);
    }
    case MessageType::kRegion: {
      if (!growing_) break;
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseU64(body));
      growing_ = false;
      return UseRegion(bytes);
    }
    case MessageType::kCredit: {
      TFOS_ASSIGN_OR_RETURN(const CreditMessage credit, ParseCredit(body));
      if (!ring_.ReleaseOldest(credit.chunks)) break;
      accepted_bytes_ = credit.accepted_bytes;
      if (until_read_) {
        sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(credit.chunks));
      }
      return {};
    }
    case MessageType::kEnded: {
      if (!end_sent_ || ended_) break;
      TFOS_ASSIGN_OR_RETURN(ended_, ParseEnded(body));
      return {};
    }
    case MessageType::kProgress:
      // Its arrival is all that it says: a waiting feeder starts to count anew.
      if (queue_.empty() || !body.empty()) break;
      return {};
    case MessageType::kStop:
      stopped_ = true;
      return {};
    case MessageType::kSuperseded: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t attempt, ParseU64(body));
      return {ErrorKind::kSuperseded,
              fmt::format("{}: attempt {} of the same partition took over", node_, attempt)};
    }
    default:
      break;
  }
  return {ErrorKind::kBadInput,
          fmt::format("an unexpected {} message from {}", MessageTypeName(reader_.type()), node_)};
}

Status FeedClient::Impl::OnOpened(const OpenedMessage& opened) {
  switch (opened.status) {
    case OpenStatus::kFeedOver:
      stopped_ = true;
      return {};
    case OpenStatus::kUnknownQueue:
      return {ErrorKind::kBadInput, fmt::format("{} has no queue '{}'", node_, queue_)};
    case OpenStatus::kGoOn:
      break;
  }
  reader_.set_limits({.data = 0, .result = opened.result_limit});
  return UseRegion(opened.region_bytes);
}

Status FeedClient::Impl::UseRegion(std::uint64_t bytes) {
  if (shares_memory_) {
    if (!passed_.valid()) {
      return {ErrorKind::kBadInput, fmt::format("{} passed no shared memory", node_)};
    }
    TFOS_ASSIGN_OR_RETURN(region_, Region::Map(std::move(passed_), bytes));
  }
  ring_ = Ring(bytes);
  return {};
}

Result<bool> FeedClient::Impl::ReadOrWait(const Deadline& deadline, bool* progressed) {
  TFOS_ASSIGN_OR_RETURN(*progressed, ReadSome());
  if (*progressed) return true;
  TFOS_ASSIGN_OR_RETURN(
      const short ready,
      net::Poll(fd_.get(), POLLIN, {.deadline = deadline, .check = options_.check}));
  return ready != 0;
}

template <typename Done>
Status FeedClient::Impl::WaitFor(Done done, std::string_view what) {
  Deadline deadline = Patience();
  while (!done()) {
    bool progressed = false;
    TFOS_ASSIGN_OR_RETURN(const bool in_time, ReadOrWait(deadline, &progressed));
    if (!in_time) return NoProgress(what);
    if (progressed) deadline = Patience();
  }
  return {};
}

Status FeedClient::Impl::Send(std::string_view head, std::span<const std::byte> payload) {
  std::span<const std::byte> first = std::as_bytes(std::span(head));
  Deadline deadline = Patience();
  while (!stopped_ && first.size() + payload.size() > 0) {
    const Result<net::Transfer> transfer = net::Send(fd_.get(), first, payload);
    if (!transfer.ok()) return LastWord(transfer.status());
    const std::size_t of_first = std::min(first.size(), transfer->bytes);
    first = first.subspan(of_first);
    payload = payload.subspan(transfer->bytes - of_first);
    if (!transfer->blocked) {
      deadline = Patience();
      continue;
    }
    TFOS_ASSIGN_OR_RETURN(
        const short ready,
        net::Poll(fd_.get(), POLLIN | POLLOUT, {.deadline = deadline, .check = options_.check}));
    if (ready == 0) return NoProgress("read nothing");
    if ((ready & POLLIN) != 0) {
      TFOS_ASSIGN_OR_RETURN(const bool progressed, ReadSome());
      if (progressed) deadline = Patience();
    }
  }
  return {};
}

/// Sending failed: the node has gone, and may have said why.
Status FeedClient::Impl::LastWord(const Status& cause) {
  while (!stopped_) {
    TFOS_ASSIGN_OR_RETURN(const bool progressed, ReadSome());
    if (!progressed) return Gone(cause);
  }
  return {};
}

Status FeedClient::Impl::Authenticate(const Secret& token, std::uint32_t node_id,
                                      const Deadline& deadline) {
  const auto wait_for = [&](const auto& message) -> Status {
    while (!message) {
      bool progressed = false;
      TFOS_ASSIGN_OR_RETURN(const bool in_time, ReadOrWait(deadline, &progressed));
      if (!in_time) {
        return {ErrorKind::kRetryLater,
                fmt::format("{} did not answer within the deadline", node_)};
      }
    }
    return {};
  };
  TFOS_RETURN_IF_ERROR(wait_for(challenge_));
  if (challenge_->version != kProtocolVersion) {
    return {ErrorKind::kUnsupported,
            fmt::format("{} speaks version {} of the feed protocol, this feeder version {}", node_,
                        challenge_->version, kProtocolVersion)};
  }
  TFOS_ASSIGN_OR_RETURN(const Nonce nonce, RandomNonce());
  TFOS_RETURN_IF_ERROR(Send(
      Encode(Hello{.nonce = nonce, .proof = FeederProof(token, challenge_->nonce, nonce)}), {}));
  TFOS_RETURN_IF_ERROR(wait_for(welcome_));
  if (!net::SameProof(NodeProof(token, challenge_->nonce, nonce), welcome_->proof)) {
    return {ErrorKind::kBadInput, fmt::format("{} does not know the cluster's token", node_)};
  }
  if (welcome_->node_id != node_id) {
    return {ErrorKind::kBadInput,
            fmt::format("{} was expected and node {} answered", node_, welcome_->node_id)};
  }
  shares_memory_ = welcome_->shares_memory;
  reader_.set_limits({});
  return {};
}

Result<Counted> FeedClient::Impl::Count(const PartitionKey& key, const Attempt& attempt) {
  if (!queue_.empty() || counting_) {
    return Status(ErrorKind::kBadInput, "a feed client counts before it opens");
  }
  counting_ = true;
  TFOS_RETURN_IF_ERROR(Send(Encode(CountMessage{.key = key, .attempt = attempt}), {}));
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
  if (!shares_memory_ && local_.size() < bytes) {
    local_ = AlignedBuffer();
    local_ = AlignedBuffer(bytes);
    if (local_.size() < bytes) {
      return Status(ErrorKind::kRetryLater,
                    fmt::format("no memory for a chunk of {} bytes", bytes));
    }
  }
  offset_ = *offset;
  reserved_ = bytes;
  return shares_memory_ ? region_->memory().subspan(offset_, bytes) : local_.bytes().first(bytes);
}

Status FeedClient::Impl::Grow(std::size_t bytes) {
  if (!shares_memory_ && bytes > kDataLimit) {
    return {ErrorKind::kUnsupported,
            fmt::format("a chunk of {} bytes; over TCP at most {} fit", bytes, kDataLimit)};
  }
  TFOS_RETURN_IF_ERROR(
      WaitFor([&] { return stopped_ || ring_.in_flight() == 0; }, "took no chunk"));
  if (stopped_) return {};
  region_.reset();
  growing_ = true;
  TFOS_RETURN_IF_ERROR(Send(EncodeGrow(bytes), {}));
  return WaitFor([&] { return stopped_ || !growing_; }, "had no memory to give");
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
      shares_memory_ ? region_->memory().subspan(offset_, bytes) : local_.bytes().first(bytes);
  if (until_read_) {
    sent_.push_back({.number = *number,
                     .bytes = chunk,
                     .copy = std::move(local_),
                     .items = items,
                     .rows_read = rows_read});
    local_ = AlignedBuffer();
  }
  if (shares_memory_) {
    return Send(Encode(ChunkMessage{.offset = offset_,
                                    .bytes = bytes,
                                    .first = items.begin,
                                    .items = items.items(),
                                    .rows_read = rows_read}),
                {});
  }
  return Send(
      EncodeDataHead(
          {.offset = offset_, .first = items.begin, .items = items.items(), .rows_read = rows_read},
          static_cast<std::uint32_t>(bytes)),
      chunk);
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

Result<std::unique_ptr<FeedClient>> FeedClient::Connect(const Endpoint& endpoint,
                                                        const Secret& token,
                                                        FeedClientOptions options,
                                                        const Deadline& deadline) {
  const Wait wait{.deadline = deadline, .check = options.check};
  const std::string doing = fmt::format("connect to the feed of {}", NodeName(endpoint));
  std::optional<UniqueFd> fd;
  if (!endpoint.unix_name.empty()) {
    Result<std::optional<UniqueFd>> local = net::ConnectUnix(endpoint.unix_name, wait);
    if (!local.ok()) return local.status().Annotate(doing);
    fd = std::move(*local);
  }
  if (!fd && !endpoint.host.empty() && endpoint.port != 0) {
    Result<UniqueFd> remote = net::ConnectTcp(endpoint.host, endpoint.port, wait, kUnansweredLimit);
    if (!remote.ok()) return remote.status().Annotate(doing);
    fd = std::move(*remote);
  }
  if (!fd) {
    return Status(ErrorKind::kReconnect, "nobody listens there any more").Annotate(doing);
  }
  auto impl = std::make_unique<Impl>(endpoint, std::move(options), std::move(*fd));
  TFOS_RETURN_IF_ERROR(impl->Authenticate(token, endpoint.node_id, deadline).Annotate(doing));
  return std::unique_ptr<FeedClient>(new FeedClient(std::move(impl)));
}

bool FeedClient::shares_memory() const { return impl_->shares_memory(); }
Result<Opened> FeedClient::Open(const SessionOptions& session) { return impl_->Open(session); }
Result<Counted> FeedClient::Count(const PartitionKey& key, const Attempt& attempt) {
  return impl_->Count(key, attempt);
}
Status FeedClient::BeginOpen(const SessionOptions& session) { return impl_->BeginOpen(session); }
bool FeedClient::opened() const { return impl_->opened(); }
Result<std::span<std::byte>> FeedClient::Reserve(std::size_t bytes) {
  return impl_->Reserve(bytes);
}
Status FeedClient::Commit(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read) {
  return impl_->Commit(bytes, items, rows_read);
}
std::vector<UnreadChunk> FeedClient::Unread() const { return impl_->Unread(); }
std::optional<std::uint64_t> FeedClient::accepted_bytes() const { return impl_->accepted_bytes(); }
Result<std::size_t> FeedClient::FreeBytes() { return impl_->FreeBytes(); }
Result<std::optional<ResultChunk>> FeedClient::TakeResult(bool block) {
  return impl_->TakeResult(block);
}
Status FeedClient::End() { return impl_->End(); }
Result<Ended> FeedClient::Finish() { return impl_->Finish(); }
bool FeedClient::stopped() const { return impl_->stopped(); }
int FeedClient::fd() const { return impl_->fd(); }

}  // namespace tfos::feed
