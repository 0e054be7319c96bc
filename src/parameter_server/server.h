#ifndef TFOS_PARAMETER_SERVER_SERVER_H_
#define TFOS_PARAMETER_SERVER_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "net/handshake/acceptor.h"
#include "net/handshake/protocol.h"
#include "parameter_server/clocks.h"
#include "parameter_server/model/link_pushes.h"
#include "parameter_server/model/store.h"
#include "parameter_server/wire/connection.h"
#include "parameter_server/wire/protocol.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// The name in the abstract namespace of server `number` of the cluster (or whatever else) `id`,
/// whose key for parameters this is, and that listens on `port`. Nobody without the key can know it
/// before the server has it. One that comes in place of a lost one has another name, as the lost
/// one's process may still be there.
std::string LocalName(const Secret& key, std::string_view id, std::uint32_t number,
                      std::uint16_t port);

/// How long a server that came again waits, from the first worker on, for others that may have
/// newer values. A worker comes at its next exchange, and others mostly exchange within that time.
/// One that died with the server does not come at all, and training stands still meanwhile.
inline constexpr std::chrono::milliseconds kPatienceForCopies{10'000};

struct ServerOptions {
  Secret key;                ///< For parameters (base/crypto/purpose.h).
  std::uint32_t number = 0;  ///< Among the servers; clients ask for it.
  UniqueFd listener;         ///< A TCP socket that is bound.
  /// In the abstract namespace, for clients of this host; empty for none.
  std::string local_name;
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  /// It comes in place of one that was lost: the client that gives first values waits until it is
  /// clear that no other one has a copy of the lost server's.
  bool returns = false;
  std::chrono::milliseconds patience_for_copies = kPatienceForCopies;
};

/// The counts of a server since its start.
struct ServerCounters {
  std::uint64_t workers = 0;  ///< Connected now.
  std::uint64_t pushes = 0;
  std::uint64_t bytes_received = 0;  ///< Over sockets, as are those sent.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_combined = 0;
  std::uint64_t values_bytes = 0;  ///< Of the share.
  /// How often new connections were put off for want of descriptors.
  std::uint64_t accept_pauses = 0;
};

/// Keeps a share of the variables, combines what workers push, and hands it out
/// (docs/formats/parameter-server-protocol.md).
///
/// Owner and lifetime: of a process, or of a test. The variables are those of the first client.
/// Threads: one calls `Run`, any `Stop` and `counters`. Errors: of a client end its connection; it
/// is told. What a worker has pushed when it dies stays, and nobody waits for it.
class Server {
 public:
  static Result<std::unique_ptr<Server>> Create(ServerOptions options);
  ~Server();

  /// Serves until `Stop`.
  Status Run();
  /// Also from a signal handler.
  void Stop();

  ServerCounters counters() const;

 private:
  struct Client;

  explicit Server(ServerOptions options);

  void Serve(Client& client, short ready);
  Status OnMessage(Client& client, const Header& header, std::span<const std::byte> body,
                   std::span<const std::byte> data);
  Status OnOpen(Client& client, std::span<const std::byte> body);
  Status CheckSame(const Open& open) const;
  /// Goes on with what the link has pushed over another connection, which ends if it has not yet.
  void TakeLink(Client& client, std::uint64_t link);
  /// Keeps what is known of the client's link for its next connection. This one pushes no more.
  void PutLink(Client& client);
  Status OnPush(Client& client, std::span<const std::byte> body, std::span<const std::byte> data);
  Status OnCommit(Client& client, std::span<const std::byte> body);
  Status OnRead(Client& client, std::span<const std::byte> body);
  Status OnWrite(std::span<const std::byte> body, std::span<const std::byte> data);
  Status OnStart(Client& client, std::span<const std::byte> body);
  Status TellOpened(Client& client);
  /// Whether some wait for values, and it is not decided yet who gives them.
  bool LooksForGiver() const;
  /// Asks the client with the newest copy for its values once all have come, or it is time.
  void ChooseGiver();
  /// When to look at clients again though they say nothing; -1: never.
  int PollMilliseconds();
  /// Ends connections to hosts that are gone, which the kernel takes a quarter of an hour for where
  /// values are on their way. Meanwhile others would wait for their pushes. True: look again.
  bool EndCutOff();
  /// Answers those who waited for what may have changed.
  void AnswerWaiting();
  /// Tells a client why it is dropped, and forgets what it was.
  void Leave(Client& client);
  void CountBytes();

  ServerOptions options_;
  UniqueFd stop_;  // an eventfd
  std::unique_ptr<net::Acceptor> acceptor_;
  std::unique_ptr<Store> store_;
  Clocks clocks_;
  GoneLinks gone_links_;
  std::list<Client> clients_;
  std::uint64_t next_id_ = 0;
  std::uint64_t giver_ = 0;  ///< The client that was asked for values; 0: none.
  std::optional<Clock::TimePoint> choose_at_;
  Clock::TimePoint next_look_{};       ///< At the clients, as EndCutOff does.
  std::uint64_t closed_received_ = 0;  ///< Bytes, of connections that are gone.
  std::uint64_t closed_sent_ = 0;

  std::atomic<std::uint64_t> workers_ = 0;
  std::atomic<std::uint64_t> pushes_ = 0;
  std::atomic<std::uint64_t> bytes_received_ = 0;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
  std::atomic<std::uint64_t> bytes_combined_ = 0;
  std::atomic<std::uint64_t> values_bytes_ = 0;
  std::atomic<std::uint64_t> accept_pauses_ = 0;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_SERVER_H_
