#include "net/resolve.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

#include "base/format.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"

namespace tfos::net {
namespace {

/// A question and, later, its answer; of the thread that asks and of the caller.
struct Question {
  Mutex mutex;
  CondVar changed;
  bool answered TFOS_GUARDED_BY(mutex) = false;
  int error TFOS_GUARDED_BY(mutex) = 0;
  Addresses addresses TFOS_GUARDED_BY(mutex);
};

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

void Ask(const std::string& host, std::uint16_t port, Lookup lookup, Question& question) {
  const addrinfo hints = Hints(0);
  addrinfo* list = nullptr;
  const int error = lookup(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const MutexLock lock(question.mutex);
  question.answered = true;
  question.error = error;
  if (error == 0) question.addresses.reset(list);
  question.changed.NotifyAll();
}

}  // namespace

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
  const auto question = std::make_shared<Question>();
  Result<std::thread> thread = StartThread(
      "tfos-resolve", [host, port, lookup, question] { Ask(host, port, lookup, *question); });
  // A caller that connects tries again: another thread may have ended by then.
  if (!thread.ok()) return Status(ErrorKind::kRetryLater, thread.status().message());
  thread->detach();
  MutexLock lock(question->mutex);
  while (!question->answered) {
    const Status round = question->changed.WaitRound(question->mutex, wait, "no answer");
    if (!round.ok()) return round.Annotate("look up host " + host);
  }
  if (const int error = question->error; error != 0) {
    // A name that is not known any more is that of a host that is gone, as in Kubernetes.
    const bool gone = error == EAI_NONAME || error == EAI_NODATA;
    return Unanswered(host, error, gone ? ErrorKind::kReconnect : ErrorKind::kRetryLater);
  }
  return std::move(question->addresses);
}

}  // namespace tfos::net
