#include "net/resolve.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"
#include "net/poll.h"

namespace tfos::net {
namespace {

addrinfo Hints(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  return hints;
}

Status Unanswered(const std::string& host, int error, ErrorKind kind) {
  return {kind, fmt::format("look up host {}: {}", host, ::gai_strerror(error))};
}

}  // namespace

/// Of the thread that asks and of the one that waits.
struct AddressQuestion::Shared {
  std::string host;
  UniqueFd answered;  // an eventfd
  Mutex mutex;
  int error TFOS_GUARDED_BY(mutex) = 0;
  Addresses addresses TFOS_GUARDED_BY(mutex);

  void Ask(std::uint16_t port, Lookup lookup) {
    const addrinfo hints = Hints(0);
    addrinfo* list = nullptr;
    const int failed = lookup(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    {
      const MutexLock lock(mutex);
      error = failed;
      if (failed == 0) addresses.reset(list);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(answered.get(), &one, sizeof(one));
  }
};

// A caller that connects tries again: other threads and descriptors may be gone by then.
Result<AddressQuestion> AddressQuestion::Ask(const std::string& host, std::uint16_t port,
                                             Lookup lookup) {
  const auto shared = std::make_shared<Shared>();
  shared->host = host;
  shared->answered.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->answered.valid()) {
    return Status(ErrorKind::kRetryLater, Status::FromErrno(errno, "open an eventfd").message());
  }
  Result<std::thread> thread =
      StartThread("tfos-resolve", [shared, port, lookup] { shared->Ask(port, lookup); });
  if (!thread.ok()) return Status(ErrorKind::kRetryLater, thread.status().message());
  thread->detach();
  return AddressQuestion(shared);
}

int AddressQuestion::fd() const { return shared_->answered.get(); }

Result<Addresses> AddressQuestion::Answer() {
  const MutexLock lock(shared_->mutex);
  if (const int error = shared_->error; error != 0) {
    // A name that is not known any more is that of a host that is gone, as in Kubernetes.
    const bool gone = error == EAI_NONAME || error == EAI_NODATA;
    return Unanswered(shared_->host, error, gone ? ErrorKind::kReconnect : ErrorKind::kRetryLater);
  }
  return std::move(shared_->addresses);
}

Result<Addresses> NumericAddress(const std::string& host, std::uint16_t port) {
  const addrinfo hints = Hints(AI_PASSIVE | AI_NUMERICHOST);
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return Unanswered(host, error, ErrorKind::kRetryLater);
  return Addresses(list);
}

Result<Addresses> Resolve(const std::string& host, std::uint16_t port, const Wait& wait,
                          Lookup lookup) {
  if (Result<Addresses> numeric = NumericAddress(host, port); numeric.ok()) return numeric;
  TFOS_ASSIGN_OR_RETURN(AddressQuestion question, AddressQuestion::Ask(host, port, lookup));
  const Result<short> answered = Poll(question.fd(), POLLIN, wait);
  if (!answered.ok()) return answered.status().Annotate("look up host " + host);
  if (*answered == 0) {
    return Status(ErrorKind::kRetryLater,
                  fmt::format("look up host {}: no answer within the deadline", host));
  }
  return question.Answer();
}

}  // namespace tfos::net
