#ifndef TFOS_NET_HANDSHAKE_ACCEPTOR_H_
#define TFOS_NET_HANDSHAKE_ACCEPTOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "net/handshake/crowd.h"
#include "net/handshake/handshake.h"
#include "net/stranger_log.h"
#include "tfos/status.h"

namespace tfos::net {

/// One that has connected: a member of the cluster, or with `others` somebody who speaks another
/// protocol and has proved nothing.
struct Guest {
  Connection connection;  ///< No stream if it is somebody else.
  std::string peer;       ///< For messages: an address, or a process of this host.
  UniqueFd other;         ///< The socket of somebody else.
  std::string received;   ///< From it.
};

/// Lets members of a cluster in, at every port and Unix socket of tfos. All shake hands at the same
/// time, so a stranger that says nothing delays nobody. Each has a deadline. When too many wait,
/// one goes of those that come from where most do, so that one address keeps no other one out. The
/// same where there are no descriptors for one more and a crowd has come from there; else that
/// pauses it. The log is bounded.
///
/// Never waits: poll `fd` for input and call Progress.
///
/// Owner and lifetime: its user's; owns the listeners. Threads: one at a time. Errors: a stranger's
/// end with its connection and are logged.
class Acceptor {
 public:
  struct Options {
    Party party = {};
    std::string what = {};        ///< That it lets in to, for the log: "the feed of node 3".
    AcceptsNumbers accepts = {};  ///< Of an authentic peer. Empty: all.
    bool others = false;          ///< Peers that speak another protocol are guests, too.
    std::size_t most_strangers = kMostStrangers;  ///< For one more, another one goes.
    std::chrono::milliseconds patience{10'000};   ///< With each of them.
  };
  static constexpr std::size_t kMostStrangers = 256;
  /// For a port to which all members of a cluster may come at the same moment, however many they
  /// are: half of the process's descriptors, so that those who are in have as many; 4,096 at most,
  /// as TLS with each takes memory.
  static std::size_t AsManyAsDescriptorsAllow();

  /// Errors: what the system says.
  static Result<std::unique_ptr<Acceptor>> Create(Options options);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Also takes those who connect to `listener`, a listening TCP or Unix socket that does not
  /// block.
  Status Listen(UniqueFd listener);
  /// As Listen, with a socket that stays its owner's and must outlive this.
  Status ListenAt(int listener);

  /// Readable when there is something for Progress to do.
  int fd() const { return epoll_.get(); }
  /// Takes those who have connected, goes on with their handshakes, and returns those who are in.
  std::vector<Guest> Progress();
  /// Those who have not proved themselves yet.
  std::size_t strangers() const { return strangers_.size(); }
  /// How often it has stopped accepting for a moment, for want of descriptors.
  std::uint64_t pauses() const { return pauses_; }
  /// Those who were not let in, so far.
  std::uint64_t refused() const { return refused_; }
  /// Stops listening; no stranger gets in any more.
  void Close();

 private:
  struct Stranger {
    Handshake handshake;
    std::string peer;
    Origin origin;
    Clock::TimePoint until;
    std::uint32_t watched = 0;  ///< Events asked of epoll.
  };
  using Strangers = std::map<std::uint64_t, Stranger>;

  explicit Acceptor(Options options) : options_(std::move(options)) {}

  Status Watch(int fd, std::uint64_t id, std::uint32_t events, bool known);
  void Accept(int listener, std::vector<Guest>& guests);
  void Continue(Strangers::iterator stranger, std::vector<Guest>& guests);
  void Refuse(Strangers::iterator stranger, std::string_view why);
  void Remove(Strangers::iterator stranger);
  bool BreakUpCrowd();
  void DropLate();
  void Pause(std::string_view why);
  void ListenFor(std::uint32_t events);
  void SetTimer();

  Options options_;
  UniqueFd epoll_;
  UniqueFd timer_;  ///< Of what is due next, so that `fd` tells of it.
  std::vector<UniqueFd> owned_;
  std::vector<int> listeners_;
  Strangers strangers_;  ///< The oldest comes first.
  Crowd crowd_;          ///< The same ones.
  std::uint64_t next_id_ = 0;
  std::uint64_t refused_ = 0;
  std::optional<Clock::TimePoint> accept_again_;
  std::uint64_t pauses_ = 0;
  StrangerLog log_;
};

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_ACCEPTOR_H_
