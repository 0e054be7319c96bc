#ifndef TFOS_PARAMETER_SERVER_SERVER_LINK_H_
#define TFOS_PARAMETER_SERVER_SERVER_LINK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/crypto/secret.h"
#include "base/memory/shared_memory.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "base/time/wait.h"
#include "net/handshake/protocol.h"
#include "net/stream.h"
#include "parameter_server/model/store.h"
#include "parameter_server/wire/protocol.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// A server as its clients find it.
struct ServerAddress {
  std::string name;     ///< For messages, such as `ps:0 on host b`.
  std::string address;  ///< Over TCP.
  std::uint16_t port = 0;
  /// Its socket in the abstract namespace of its host; empty: over TCP from everywhere.
  std::string local_name;
  net::Encryption encryption = net::Encryption::kBetweenHosts;
};

/// A client's end of the connection to one server, with a thread of its own that pushes and pulls
/// the server's share while the program goes on.
///
/// Owner and lifetime: of a Client. Threads: one calls it, except Abort. Errors: the first one
/// ends it: reconnect when the server is gone, with its name; bad input when it refuses this
/// client; what `check` says. Whatever follows fails with the same.
class ServerLink {
 public:
  struct Options {
    ServerAddress server;
    std::uint32_t number = 0;  ///< Of the server.
    std::uint32_t worker = 0;
    Secret key;  ///< For parameters.
    Open open;
    std::uint64_t share_bytes = 0;
    std::chrono::milliseconds stall_after{0};
    Wait wait;
  };

  /// Connects, and waits until the server has its first values unless this one gives them.
  static Result<std::unique_ptr<ServerLink>> Connect(Options options);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  /// Where to put what is pushed: the share.
  std::span<std::byte> outgoing() const { return outgoing_; }
  bool local() const { return view_.has_value(); }
  /// kNotStarted until the server has values.
  std::uint64_t version() const { return version_; }

  struct Job {
    bool push = false;
    std::span<std::byte> pull;  ///< The room for the share's values; empty for none.
  };
  /// Gives the thread something to do; nothing may be under way.
  void Start(const Job& job);
  /// So many bytes of `outgoing` are ready to be pushed. All must be, some time.
  void Filled(std::uint64_t bytes);
  /// Whether nothing is under way any more; then `status` says how that ended.
  bool WaitFor(std::chrono::milliseconds time);
  Status status() const TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return status_;
  }

  // Nothing may be under way. In the caller's thread.
  Status Read(std::uint8_t part, std::span<std::byte> to);
  Status Write(std::uint8_t part, std::span<const std::byte> from);
  Status StartAt(std::uint64_t version);

  /// Ends what is under way, which then fails.
  void Abort();

 private:
  explicit ServerLink(Options options) : options_(std::move(options)) {}

  /// From here on it waits, as TellOfStall has it.
  void BeginToWait();
  Status ConnectSocket();
  Status OpenStore();
  void Work();
  Status Do(const Job& job);
  Status PushFilled();
  Status Pull(std::span<std::byte> to);
  Status ReadShare(std::uint8_t part, std::span<std::byte> to);
  Status SendAll(std::span<const std::byte> data);
  Result<net::Transfer> ReceiveInto(std::span<std::byte> room, UniqueFd* passed);
  Status SendText(const std::string& message);
  /// The next message, whose body is left in body_. WAITING and FAILED are dealt with.
  Result<Header> Receive(UniqueFd* passed = nullptr);
  Result<std::uint64_t> AwaitVersion(MessageType type, UniqueFd* passed = nullptr);
  Status ReceiveAll(std::span<std::byte> room, UniqueFd* passed = nullptr);
  /// Whether the server is there.
  Status CheckConnected() const;
  void TellOfStall();
  Status About(Status status) const;

  Options options_;
  std::unique_ptr<net::Stream> stream_;
  bool local_socket_ = false;
  SharedMemory region_;
  std::unique_ptr<std::byte[]> own_;
  std::span<std::byte> outgoing_;
  std::optional<StoreView> view_;
  std::string body_;
  std::atomic<std::uint64_t> version_ = kNotStarted;
  std::atomic<bool> aborted_ = false;

  std::optional<Waiting> waiting_;  ///< What the server said this client waits for.
  Clock::TimePoint began_at_;       ///< When what waits began.

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<Job> job_ TFOS_GUARDED_BY(mutex_);
  std::uint64_t filled_ TFOS_GUARDED_BY(mutex_) = 0;
  bool closing_ TFOS_GUARDED_BY(mutex_) = false;
  Status status_ TFOS_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_SERVER_LINK_H_
