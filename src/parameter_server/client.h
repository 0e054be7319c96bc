#ifndef TFOS_PARAMETER_SERVER_CLIENT_H_
#define TFOS_PARAMETER_SERVER_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "parameter_server/model/layout.h"
#include "parameter_server/model/rule.h"
#include "parameter_server/server_link.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

struct ClientOptions {
  std::vector<ServerAddress> servers;  ///< In the same order everywhere.
  std::vector<Variable> variables;     ///< The same everywhere.
  Rule rule;                           ///< The same everywhere.
  /// Pushes that others may be behind this one; none: any number.
  std::optional<std::uint32_t> staleness = {};
  std::uint32_t worker = 0;
  std::string name;  ///< Of this client, for messages: `worker:1 on host b`.
  /// Gives the first values (`Write` and `StartAt`); all others wait for them.
  bool starts = false;
  Secret key;  ///< For parameters (base/crypto/purpose.h).
  std::chrono::milliseconds connect_timeout{std::chrono::minutes(10)};
  /// After so long an operation says in the log whom it waits for.
  std::chrono::milliseconds stall_after{std::chrono::seconds(30)};
  /// Ends any wait. Called on the thread that waits.
  InterruptCheck check = {};
  /// Where server i is now, from any thread. With it, a server that is lost comes again, and is
  /// waited for. Empty: its loss ends the client.
  std::function<ServerAddress(std::size_t server)> find = {};
  /// Between two copies of the optimizer's slots, which this client gives a server that comes
  /// again.
  std::chrono::milliseconds copy_interval{std::chrono::seconds(30)};
};

/// What a client pushes.
enum class Pushed {
  kValues,     ///< Its values.
  kChange,     ///< How they have changed since it last got them.
  kGradients,  ///< Something else than values.
};

/// By its name: values, change or gradients. Bad input for another. Threads: any.
Result<Pushed> PushedFrom(std::string_view name);

/// A worker's side of the parameter servers: pushes its variables and gets the servers'.
///
/// Owner and lifetime: of a worker's process; the servers forget a client that is gone. Its memory
/// is that of the variables three times, and of the slots once where servers come again. Threads:
/// one at a time. Errors: the first one ends it, and whatever follows fails with it. Reconnect when
/// a server is gone that does not come again, or that is given its first values, naming it; bad
/// input when clients want different things.
class Client {
 public:
  /// Errors: retry later when a server is not there at the deadline, or has no values by then.
  static Result<std::unique_ptr<Client>> Connect(ClientOptions options);
  ~Client();

  using Tensors = std::span<const std::span<const std::byte>>;

  struct Exchange {
    std::optional<Pushed> push = {};
    bool pull = false;
    /// Goes on in the background; the next call waits for it. What the variables do meanwhile is
    /// kept: see `values`.
    bool overlapped = false;
  };
  /// Pushes `tensors`, by variable, and then pulls; either may be left out.
  Status Run(const Exchange& exchange, Tensors tensors);

  /// What the variable is to be after an exchange that pulls: the servers' values; when it was
  /// overlapped, what the one before it has pulled and this worker has done since.
  /// Valid until the next exchange.
  std::span<const std::byte> values(std::size_t variable) const;
  /// Copies what all variables are to be. `tensors` are as many as the variables, each of the bytes
  /// of its own: bad input otherwise.
  Status CopyValues(std::span<const std::span<std::byte>> tensors) const;
  /// Whether all servers have values. Only of one that gives them they may have none.
  bool started() const;
  /// How many pushes the servers had combined when this client last heard of them.
  std::uint64_t version() const;
  /// Servers that share memory with this client.
  std::size_t local_servers() const;

  /// A part of the servers' state (0 the values, 1 and 2 the optimizer's slots), by variable.
  Status Read(std::uint8_t part, std::span<const std::span<std::byte>> tensors);
  /// Where servers come again, those that have values keep them: another one was lost, and it alone
  /// gets these.
  Status Write(std::uint8_t part, Tensors tensors);
  /// What was written is what to go on from.
  Status StartAt(std::uint64_t version);

 private:
  Client(ClientOptions options, Layout layout)
      : options_(std::move(options)), layout_(std::move(layout)) {}

  /// A server's share.
  struct Share {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::unique_ptr<ServerLink> link;
    std::uint64_t base_version = kNotStarted;  ///< Of what is in base_; kNotStarted: nothing yet.
    std::uint64_t landed_version = kNotStarted;
  };

  Status Connect();
  Status CheckTensors(std::span<const std::size_t> sizes) const;
  Status Await();
  Status AwaitLink(const Share& share);
  /// Whether the server is not to be given first values.
  bool KeepsValues(const Share& share) const;
  /// What is in base_ now is what has landed.
  void BaseHasLanded();
  /// What a server may get of base_ as it will be once all is filled.
  ServerLink::Copy CopyOf(const Share& share, bool has_push) const;
  Status Fail(Status why);
  void Fill(const Exchange& exchange, Tensors tensors);
  void FillPart(const Exchange& exchange, Tensors tensors, const Layout::Part& part,
                std::span<std::byte> outgoing);

  const ClientOptions options_;
  const Layout layout_;
  std::unique_ptr<std::byte[]> memory_;
  std::span<std::byte> base_;    ///< What this worker last got, or was told to have.
  std::span<std::byte> landed_;  ///< Where values arrive.
  /// Where Read has a share arrive; kept when it fails, as a thread may write to it until it ends.
  std::vector<std::byte> read_;
  std::vector<Share> shares_;  ///< Behind the memory that their threads write to.
  bool under_way_ = false;
  bool pulling_ = false;     ///< What is under way pulls.
  bool has_landed_ = false;  ///< There are values in landed_ that are not in base_ yet.
  Status failure_;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_CLIENT_H_
