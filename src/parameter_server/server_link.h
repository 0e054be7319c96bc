#ifndef TFOS_PARAMETER_SERVER_SERVER_LINK_H_
#define TFOS_PARAMETER_SERVER_SERVER_LINK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

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
/// Where a lost server comes again (`find`), what is under way waits for that, and is done there:
/// a push, unless the lost one had combined it, and a pull. A server that has no values gets this
/// client's copy if it asks for that. Where the connection alone was lost, the server tells what it
/// has of the push, and gets the rest.
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
    /// Where the server is now. Called on this link's threads. Empty: one that is lost does not
    /// come again.
    std::function<ServerAddress()> find = {};
    /// Between two copies of the optimizer's slots, where the server comes again.
    std::chrono::milliseconds copy_interval{0};
  };

  /// Connects, and waits until the server has its first values unless this one gives them.
  static Result<std::unique_ptr<ServerLink>> Connect(Options options);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  /// Where to put what is pushed: the share.
  std::span<std::byte> outgoing() const { return outgoing_; }
  bool local() const { return local_; }
  /// kNotStarted until the server has values.
  std::uint64_t version() const { return version_; }

  /// What a server that has lost its values is given.
  struct Copy {
    std::span<const std::byte> values = {};  ///< The share. Not changed once all is filled.
    std::uint64_t version = kNotStarted;     ///< kNotStarted: there is no copy.
    bool has_push = false;                   ///< The values have in them what the job pushes.
  };
  struct Job {
    bool push = false;
    std::span<std::byte> pull = {};  ///< The room for what is pulled of the share; empty for none.
    std::uint8_t part = 0;           ///< That is pulled: 0 the values, 1 and 2 the slots.
    Copy copy = {};
  };
  /// Gives the thread something to do; nothing may be under way.
  void Start(const Job& job);
  /// The first `bytes` bytes of `outgoing` are ready to be pushed. All must be, some time.
  void Filled(std::uint64_t bytes);
  /// Whether nothing is under way any more; then `status` says how that ended.
  bool WaitFor(std::chrono::milliseconds time);
  Status status() const TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return status_;
  }

  // Nothing may be under way. In the caller's thread, and a server that is lost is an error.
  Status Write(std::uint8_t part, std::span<const std::byte> from);
  Status StartAt(std::uint64_t version);

  /// Ends what is under way, which then fails.
  void Abort();

 private:
  explicit ServerLink(Options options) : options_(std::move(options)), server_(options_.server) {}

  /// Whether the server reads what is pushed out of this client's memory.
  bool shares_region() const { return local_socket_ && own_ == nullptr; }

  /// From here on it waits, as TellOfStall has it.
  void BeginToWait();
  /// Opens a server that has values, or gets them while this waits.
  Status OpenFirst();
  Status ConnectSocket();
  Status OpenStore(const Copy& copy);
  /// Writes and starts the server that asks for it.
  Status Give(const Copy& copy);
  void Work();
  Status Do(const Job& job);
  /// What of the job the server has not done yet.
  Status Attempt(const Job& job);
  /// Whether to wait for the server instead of failing with this.
  bool ComesAgain(const Status& why) const;
  /// Whether it runs elsewhere than where this is connected to.
  bool HasMoved() const;
  /// Waits for the server that was lost, and opens it.
  Status AwaitReturn(const Job& job, const Status& why);
  Status AwaitFilled();
  /// Goes on with the push under way from what the server has of it.
  Status GoOnFrom(const Opened& opened);
  /// Keeps a copy of the slots when it is time.
  Status CopySlots();
  /// Ends waits of the link's thread.
  Status CheckOnThread();
  Status PushFilled();
  Status Pull(std::span<std::byte> to);
  Status ReadShare(std::uint8_t part, std::uint64_t from, std::span<std::byte> to);
  Status WriteShare(std::uint8_t part, std::span<const std::byte> from);
  Status SendAll(std::span<const std::byte> data);
  Result<net::Transfer> ReceiveInto(std::span<std::byte> room, UniqueFd* passed);
  Status SendText(const std::string& message);
  /// The next message, whose body is left in body_. WAITING and FAILED are dealt with.
  Result<Header> Receive(UniqueFd* passed = nullptr);
  Result<std::uint64_t> AwaitVersion(MessageType type);
  Status ReceiveAll(std::span<std::byte> room, UniqueFd* passed = nullptr);
  /// Whether the server is there.
  Status CheckConnected() const;
  void TellOfStall();
  Status About(Status status) const;

  Options options_;
  ServerAddress server_;                 ///< Where this is, or tries to be, connected to.
  std::unique_ptr<net::Stream> stream_;  ///< Set under the mutex, as Abort uses it.
  bool local_socket_ = false;
  std::atomic<bool> local_ = false;
  SharedMemory region_;
  std::unique_ptr<std::byte[]> own_;
  std::span<std::byte> outgoing_;
  std::optional<StoreView> view_;
  std::string body_;
  std::atomic<std::uint64_t> version_ = kNotStarted;
  std::atomic<bool> aborted_ = false;

  bool lost_ = false;            ///< The server is, and has not come again.
  bool gave_ = false;            ///< The server that came again has this client's copy.
  bool combined_ = false;        ///< It has what the job pushes.
  std::uint64_t pushes_ = 0;     ///< Of this link that the server says are committed.
  std::uint64_t sent_ = 0;       ///< Bytes of the push under way that the server may have.
  std::uint64_t resume_at_ = 0;  ///< From here on it gets the push under way.
  std::vector<std::vector<std::byte>> slots_;  ///< Copies of the server's.
  bool has_slots_ = false;                     ///< They are whole.
  Clock::TimePoint copy_at_{};                 ///< When to copy them again.

  std::optional<Waiting> waiting_;  ///< What the server said this client waits for.
  Clock::TimePoint began_at_;       ///< When what waits began.
  Clock::TimePoint say_at_;         ///< When to say that the server has not come yet.

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
