#ifndef TFOS_PARAMETER_SERVER_WIRE_GREETER_H_
#define TFOS_PARAMETER_SERVER_WIRE_GREETER_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// Lets in those that know the token, each in a separate thread, so that a stranger that says
/// nothing keeps nobody waiting.
///
/// Owner and lifetime: of a Server; its destructor waits for its threads, which end at once.
/// Threads: one calls it. Errors: a stranger is disconnected and logged.
class Greeter {
 public:
  /// `number` is the server's. With `encrypt` those over TCP must go on with TLS.
  static Result<std::unique_ptr<Greeter>> Create(const Secret& token, std::uint32_t number,
                                                 bool encrypt);
  ~Greeter();

  /// Takes what has connected. More than a few at a time wait in the listener's queue: see `busy`.
  /// Fails, and closes the socket, when the host has no thread to spare.
  Status Greet(UniqueFd socket, bool local);
  bool busy() const { return greeting_ >= kMostAtATime; }

  /// Polls readable when there is somebody to take.
  int ready_fd() const { return ready_.get(); }

  struct Guest {
    std::unique_ptr<net::Stream> stream;
    bool local = false;  ///< Of this host, over a Unix socket.
  };
  std::vector<Guest> Take();

 private:
  static constexpr int kMostAtATime = 64;

  Greeter(const Secret& token, std::uint32_t number, bool encrypt)
      : token_(token), number_(number), encrypt_(encrypt) {}
  Result<Guest> Recognize(UniqueFd socket, bool local);
  void Signal();

  const Secret token_;
  const std::uint32_t number_;
  const bool encrypt_;
  UniqueFd ready_;  ///< An eventfd.
  std::atomic<bool> stopping_ = false;
  std::atomic<int> greeting_ = 0;
  Mutex mutex_;
  std::vector<Guest> guests_ TFOS_GUARDED_BY(mutex_);
  struct Greeting {
    std::atomic<bool> over = false;
    std::thread thread;
  };
  std::list<Greeting> greetings_;

  /// Makes room for another one, also where an exception such as that of no memory ends a greeting.
  class Over {
   public:
    Over(Greeter& greeter, Greeting& greeting) : greeter_(greeter), greeting_(greeting) {}
    ~Over() {
      --greeter_.greeting_;
      greeting_.over = true;
      greeter_.Signal();
    }
    Over(const Over&) = delete;
    Over& operator=(const Over&) = delete;

   private:
    Greeter& greeter_;
    Greeting& greeting_;
  };
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_WIRE_GREETER_H_
