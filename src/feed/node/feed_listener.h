#ifndef TFOS_FEED_NODE_FEED_LISTENER_H_
#define TFOS_FEED_NODE_FEED_LISTENER_H_

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "feed/node/session/feed_sessions.h"
#include "feed/node/session/node_types.h"
#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"
#include "feed/wire/session.h"
#include "net/handshake/acceptor.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The sockets of a node's feed: lets feeders in that have its key, and carries frames between them
/// and the sessions.
///
/// Owner and lifetime: the server; shares the sessions. To be joined after `sessions->Close()`.
/// Threads: does all its work in one of its own. Errors: a connection's end with that connection.
class FeedListener {
 public:
  /// kRetryLater: no port of the range is free.
  static Result<std::unique_ptr<FeedListener>> Start(const FeedServerOptions& options,
                                                     std::shared_ptr<FeedSessions> sessions);
  ~FeedListener();

  Endpoint endpoint() const { return endpoint_; }
  /// Until every feeder has heard that the sessions are closed, or was given the time to.
  void Join();

 private:
  struct Connection;

  FeedListener(const FeedServerOptions& options, std::shared_ptr<FeedSessions> sessions);

  Status Listen();
  void Run();
  /// It can't go on. Feeders notice, and would else wait for as long as their patience lasts.
  void GiveUp(const char* why);
  /// Until something happens, or is due.
  std::size_t WaitForEvents(std::optional<Clock::TimePoint> close_by);
  void OnEvents(std::size_t count);
  void LetIn();
  /// Whether all are gone.
  bool CloseConnections(Clock::TimePoint close_by);
  /// Ends connections to hosts that are gone, and to feeders that take no results: the program may
  /// wait in the middle of them, and all other partitions behind it. The kernel takes a quarter of
  /// an hour for the former.
  void LookAtPeers();
  Status LookAt(Connection& connection, Clock::TimePoint now);
  void OnReadable(Connection& connection);
  Result<bool> ReceiveOnce(Connection& connection, std::size_t& received);
  Status OnEvent(Connection& connection, FrameReader::Event event);
  void ReadHeld();
  void Flush(Connection& connection);
  void FlushChanged();
  void Watch(Connection& connection, std::uint32_t events);
  void Refuse(Connection& connection, const Status& reason);
  void Drop(std::uint64_t connection_id, const Status& reason);

  const FeedServerOptions options_;
  const std::shared_ptr<FeedSessions> sessions_;
  Endpoint endpoint_;
  UniqueFd epoll_;
  std::unique_ptr<net::Acceptor> acceptor_;
  std::thread thread_;

  // The thread only.
  std::vector<epoll_event> events_ = std::vector<epoll_event>(64);
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_connection_;
  Clock::TimePoint next_look_{};     ///< At the peers.
  std::set<std::uint64_t> holding_;  ///< Connections with bytes that epoll does not show.
  std::uint64_t refused_ = 0;        ///< Strangers, as far as they are counted.
  std::vector<std::byte> scratch_ = std::vector<std::byte>(64 * 1024);
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_LISTENER_H_
