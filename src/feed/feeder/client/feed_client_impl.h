#ifndef TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_IMPL_H_
#define TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"
#include "feed/wire/region.h"
#include "feed/wire/ring.h"
#include "net/handshake/protocol.h"
#include "net/stream.h"

namespace tfos::feed {

/// What FeedClient is made of: the partition's side is in feed_client.cc, the conversation with the
/// node in feed_conversation.cc.
class FeedClient::Impl {
 public:
  /// For messages.
  static std::string NameOf(const Endpoint& endpoint);

  /// Over a connection whose two ends have proved who they are.
  Impl(const Endpoint& endpoint, FeedClientOptions options, net::Connection connection)
      : node_(NameOf(endpoint)),
        options_(std::move(options)),
        stream_(std::move(connection.stream)),
        channel_(connection.channel) {}

  net::Channel channel() const { return channel_; }
  bool shares_memory() const { return channel_ == net::Channel::kLocal; }
  Result<Counted> Count(const PartitionKey& key, AttemptId attempt, Ask what);
  Status BeginOpen(const SessionOptions& session);
  bool opened() const { return opened_.has_value() && !stopped_; }
  Result<Opened> Open(const SessionOptions& session);
  Result<std::span<std::byte>> Reserve(std::size_t bytes);
  Status BeginGrow(std::size_t bytes);
  Status Commit(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read);
  std::vector<UnreadChunk> Unread() const;
  std::optional<AcceptedBytes> accepted() const { return accepted_; }
  Result<std::size_t> FreeBytes();
  Result<std::optional<ResultChunk>> TakeResult(bool block);
  Status End();
  Result<Ended> Finish();
  bool stopped() const { return stopped_; }
  int fd() const { return stream_->fd(); }

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
  /// Receiving failed.
  Status Broken(const Status& cause) const;
  Status NoProgress(std::string_view what) const;
  Deadline Patience() const { return Deadline::After(options_.progress_timeout); }

  const std::string node_;
  const FeedClientOptions options_;
  const std::unique_ptr<net::Stream> stream_;
  const net::Channel channel_;
  FrameReader reader_;
  UniqueFd passed_;  ///< Came with the last bytes; belongs to the next OPENED or REGION.

  // The partition.
  bool counting_ = false;  ///< COUNT is sent, and not all of the answer is there.
  Counted counted_;
  std::string queue_;
  bool until_read_ = false;
  bool checksums_ = false;  ///< Training: a later attempt may skip what this one brings.
  std::deque<Sent> sent_;
  std::optional<AcceptedBytes> accepted_;
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

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_IMPL_H_
