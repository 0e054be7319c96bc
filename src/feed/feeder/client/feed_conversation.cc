// What the feeder and the node say to each other, and how long each is waited for.

#include <poll.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/time/seconds_text.h"
#include "feed/feeder/client/feed_client_impl.h"
#include "net/poll.h"
#include "net/socket.h"

namespace tfos::feed {
std::string FeedClient::Impl::NameOf(const Endpoint& endpoint) {
  return endpoint.host.empty() ? fmt::format("node {}", endpoint.node_id)
                               : fmt::format("node {} on host {}", endpoint.node_id, endpoint.host);
}

Status FeedClient::Impl::Gone(const Status& cause) const {
  std::string text = fmt::format("{} closed the feed connection (it died or was stopped)", node_);
  return cause.ok() ? Status(ErrorKind::kReconnect, std::move(text))
                    : Status(ErrorKind::kReconnect, fmt::format("{}: {}", text, cause.ToString()));
}

Status FeedClient::Impl::Broken(const Status& cause) const {
  if (cause.kind() != ErrorKind::kBadInput) return Gone(cause);
  // TLS has refused bytes. The node is well, so the partition can be fed again.
  return {ErrorKind::kReconnect,
          fmt::format("data from {} was altered in transit, so the connection was closed: {}",
                      node_, cause.ToString())};
}

Status FeedClient::Impl::NoProgress(std::string_view what) const {
  return {ErrorKind::kRetryLater,
          fmt::format("{} {} for {} (it holds {} chunk{} of this feeder). Its program is busy or "
                      "stuck: look at the node's log, or raise feed_timeout if a step takes that "
                      "long",
                      node_, what, SecondsText(options_.progress_timeout), ring_.in_flight(),
                      ring_.in_flight() == 1 ? "" : "s")};
}

Result<bool> FeedClient::Impl::ReadSome() {
  const std::span<std::byte> space = reader_.Space();
  const Result<net::Transfer> transfer =
      shares_memory() ? net::Receive(fd(), space, &passed_) : stream_->Receive(space);
  if (!transfer.ok()) return Broken(transfer.status());
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
        return {ErrorKind::kNoResources,
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
    case MessageType::kCounted: {
      if (!counting_) break;
      TFOS_ASSIGN_OR_RETURN(const CountedMessage counted, ParseCounted(body));
      counted_.chunks.insert(counted_.chunks.end(), counted.chunks.begin(), counted.chunks.end());
      counted_.accepted = counted.accepted;
      counting_ = counted.more;
      return {};
    }
    case MessageType::kOpened: {
      if (queue_.empty() || opened_) break;
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
      // Nor for a chunk that is still being sent.
      if (until_read_ && credit.chunks > sent_.size()) break;
      if (!ring_.ReleaseOldest(credit.chunks)) break;
      accepted_ = credit.accepted;
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
              fmt::format("{}: task attempt {} at the same partition took over", node_, attempt)};
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
  if (opened.result_limit > options_.most_result_bytes) {
    return {ErrorKind::kBadInput,
            fmt::format("{} wants to send results of {} bytes; at most {} are taken", node_,
                        opened.result_limit, options_.most_result_bytes)};
  }
  reader_.set_limits({.data = 0, .result = opened.result_limit});
  return UseRegion(opened.region_bytes);
}

Status FeedClient::Impl::UseRegion(std::uint64_t bytes) {
  if (shares_memory()) {
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
  TFOS_ASSIGN_OR_RETURN(const short ready,
                        net::Poll(fd(), POLLIN, {.deadline = deadline, .check = options_.check}));
  return ready != 0;
}

Status FeedClient::Impl::Send(std::string_view head, std::span<const std::byte> payload) {
  std::span<const std::byte> first = std::as_bytes(std::span(head));
  Deadline deadline = Patience();
  while (!stopped_ && first.size() + payload.size() > 0) {
    const Result<net::Transfer> transfer = stream_->Send(first, payload);
    if (!transfer.ok()) return LastWord(transfer.status());
    const std::size_t of_first = std::min(first.size(), transfer->bytes);
    first = first.subspan(of_first);
    payload = payload.subspan(transfer->bytes - of_first);
    if (!transfer->blocked) {
      deadline = Patience();
      continue;
    }
    bool may_read = stream_->holds_bytes();
    if (!may_read) {
      TFOS_ASSIGN_OR_RETURN(
          const short ready,
          net::Poll(fd(), POLLIN | POLLOUT, {.deadline = deadline, .check = options_.check}));
      if (ready == 0) return NoProgress("read nothing");
      may_read = (ready & POLLIN) != 0;
    }
    if (may_read) {
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

}  // namespace tfos::feed
