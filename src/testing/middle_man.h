#ifndef TFOS_TESTING_MIDDLE_MAN_H_
#define TFOS_TESTING_MIDDLE_MAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"

namespace tfos::testing {

/// Somebody in the middle of TCP connections, who passes on what both ends say, and changes it as a
/// test wants. A client connects to `port` on 127.0.0.1 and reaches the server's port through it.
///
/// Owner and lifetime: owns its sockets and its thread; the destructor closes all. Threads: its
/// thread calls the rule; everything else from any. Errors: a connection that fails is cut at both
/// ends.
class MiddleMan {
 public:
  enum class Direction { kToServer, kToClient };
  /// May change `bytes`, which go in this direction and of which the first is number `at` of the
  /// connection there. False: nothing more goes in this direction after them.
  using Rule = std::function<bool(Direction direction, std::uint64_t at, std::string& bytes)>;

  MiddleMan(std::uint16_t server_port, Rule rule);
  ~MiddleMan();
  MiddleMan(const MiddleMan&) = delete;
  MiddleMan& operator=(const MiddleMan&) = delete;

  std::uint16_t port() const { return port_; }
  /// All that was said in this direction, as it came, on all connections.
  std::string heard(Direction direction) const TFOS_EXCLUDES(mutex_);

 private:
  struct Pair;

  void Run();
  /// Until a connection ends at both sides.
  void PassOn(Pair& pair);
  bool PassOnce(Pair& pair, Direction direction);

  const std::uint16_t server_port_;
  const Rule rule_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::string heard_[2] TFOS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_MIDDLE_MAN_H_
