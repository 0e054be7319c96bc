#ifndef TFOS_PARAMETER_SERVER_CLOCKS_H_
#define TFOS_PARAMETER_SERVER_CLOCKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tfos::parameter_server {

/// How far the workers are that push to a server, in pushes, and which must wait for which so that
/// none is more than so many ahead of another (stale synchronous parallel).
///
/// Owner and lifetime: a value of the Server. Threads: one at a time. Q. Ho et al., "More Effective
/// Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013.
class Clocks {
 public:
  /// A worker begins to push: as far as the slowest one is. One that has pushed before, over a
  /// connection that is gone, is at least at its `clock` of then. Nothing happens to one that is
  /// here.
  void Join(std::uint64_t worker, const std::string& name, std::uint64_t clock = 0);
  /// It is gone; nobody waits for it any more.
  void Leave(std::uint64_t worker) { workers_.erase(worker); }
  /// It has pushed once more.
  void Advance(std::uint64_t worker);

  struct Worker {
    std::string name;
    std::uint64_t clock = 0;
  };
  /// The one that `worker` must wait for; none when it may go on.
  std::optional<Worker> WaitsFor(std::uint64_t worker, std::uint64_t staleness) const;
  std::uint64_t clock(std::uint64_t worker) const;
  std::size_t size() const { return workers_.size(); }

 private:
  /// The slowest worker; not called without any.
  const Worker& Slowest() const;

  std::map<std::uint64_t, Worker> workers_;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_CLOCKS_H_
