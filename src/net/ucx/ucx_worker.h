#ifndef TFOS_NET_UCX_UCX_WORKER_H_
#define TFOS_NET_UCX_UCX_WORKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/process/unique_fd.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::net {

/// The UCX that a worker of this process has, or would have.
struct FoundUcx {
  std::string file;
  std::string version;     ///< As `1.22.0`.
  bool has_verbs = false;  ///< It was built for InfiniBand and RoCE.
};
/// Loads it, and keeps it. `packaged`: as of a worker's options. Errors: as UcxWorker::Create.
Result<FoundUcx> FindUcx(const std::string& packaged);

/// This process's end of all its streams over UCX, which picks InfiniBand or RoCE where both hosts
/// have it, else TCP.
///
/// Owner and lifetime: of a Mesh; its streams must be gone before. Threads: one at a time, its
/// streams included. Errors: unsupported when UCX is not there, or not in this build. Cost: some
/// MiB, and a core only while something moves.
class UcxWorker {
 public:
  struct Options {
    std::size_t peers = 1;  ///< About how many streams there will be.
    /// What UCX may use, as in its UCX_TLS; empty: what it chooses.
    std::string transports = {};
    /// The file of a libucp to take where the system has none that is new enough; may be empty.
    std::string packaged = {};
  };
  static Result<std::unique_ptr<UcxWorker>> Create(const Options& options);

  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  virtual ~UcxWorker() = default;

  /// For others to open a stream to this one.
  virtual std::span<const std::byte> address() const = 0;
  /// A stream to the worker at `address`, where the other end opens one to this. It has yet to
  /// adopt the socket that is connected to that process. What is sent carries the tag `theirs`, and
  /// what carries `ours` is received: numbers that nobody else knows.
  virtual Result<std::unique_ptr<Stream>> Open(std::span<const std::byte> address,
                                               std::uint64_t ours, std::uint64_t theirs) = 0;

  /// Moves what can be moved. True if anything was.
  virtual bool Progress() = 0;
  /// To be called before `fd` is polled for POLLIN. False when there is something to do at once.
  virtual bool Arm() = 0;
  virtual int fd() const = 0;
  /// Waits until what was sent has left, at most so long.
  virtual void Flush(std::chrono::milliseconds patience) = 0;

 protected:
  UcxWorker() = default;
};

}  // namespace tfos::net

#endif  // TFOS_NET_UCX_UCX_WORKER_H_
