#ifndef TFOS_NET_UCX_UCX_ENGINE_H_
#define TFOS_NET_UCX_UCX_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "net/ucx/ucx_library.h"
#include "tfos/status.h"

namespace tfos::net {

/// UCX's context and worker: what moves the messages of all streams.
///
/// Owner and lifetime: of a UcxWorker, which outlives its streams. Threads: one at a time, the
/// streams' included. Errors: what UCX says.
class UcxEngine {
 public:
  explicit UcxEngine(const UcxLibrary& library) : library_(library) {}
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;
  ~UcxEngine();

  /// To be called once, before anything else; the arguments are as in a worker's options.
  Status Start(std::size_t peers, const std::string& transports);
  const UcxLibrary& library() const { return library_; }
  ucp_worker_h handle() const { return worker_; }
  /// For others to connect to this one.
  std::span<const std::byte> address() const {
    return {reinterpret_cast<const std::byte*>(address_), address_bytes_};
  }

  /// Moves what can be moved. True if anything was.
  bool Progress() { return !abandoned_ && library_.worker_progress(worker_) > 0; }
  /// To be called before `fd` is polled for POLLIN. False when there is something to do at once.
  bool Arm() { return abandoned_ || library_.worker_arm(worker_) == UCS_OK; }
  int fd() const { return fd_; }
  /// Progresses until `request` is done, and frees it. False when it takes too long.
  bool Await(void* request, std::chrono::milliseconds patience);
  /// Waits until what was sent has left, at most so long.
  void Flush(std::chrono::milliseconds patience);

  /// UCX has not given back memory: nothing of its own is to be freed any more, and nothing is to
  /// move, as it may go to memory that others have back.
  void Abandon() { abandoned_ = true; }
  /// What streams must look at before they do anything. Reconnect once it is abandoned.
  Status Check() const;

 private:
  const UcxLibrary library_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_address_t* address_ = nullptr;
  std::size_t address_bytes_ = 0;
  int fd_ = -1;
  bool abandoned_ = false;
};

}  // namespace tfos::net

#endif  // TFOS_NET_UCX_UCX_ENGINE_H_
