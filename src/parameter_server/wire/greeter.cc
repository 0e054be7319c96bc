#include "parameter_server/wire/greeter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/thread.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "net/tls/tls_stream.h"
#include "parameter_server/wire/protocol.h"

namespace tfos::parameter_server {
namespace {

/// For a stranger that connects and says nothing.
constexpr std::chrono::seconds kPatience{3};

}  // namespace

Result<std::unique_ptr<Greeter>> Greeter::Create(const Secret& token, std::uint32_t number,
                                                 bool encrypt) {
  std::unique_ptr<Greeter> greeter(new Greeter(token, number, encrypt));
  greeter->ready_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!greeter->ready_.valid()) return Status::FromErrno(errno, "open an eventfd");
  return greeter;
}

Greeter::~Greeter() {
  stopping_ = true;
  for (Greeting& greeting : greetings_) {
    if (greeting.thread.joinable()) greeting.thread.join();  // One without had no memory.
  }
}

Status Greeter::Greet(UniqueFd socket, bool local) {
  std::erase_if(greetings_, [](Greeting& greeting) {
    if (!greeting.over) return false;
    greeting.thread.join();
    return true;
  });
  Greeting& greeting = greetings_.emplace_back();
  auto started =
      StartThread("tfos-greeter",
                  [this, &greeting, local, taken = std::make_shared<UniqueFd>(std::move(socket))] {
                    const Over over(*this, greeting);
                    auto guest = Recognize(std::move(*taken), local);
                    if (guest.ok()) {
                      const MutexLock lock(mutex_);
                      guests_.push_back(std::move(guest).value());
                    } else if (!stopping_) {
                      LogWarning("A connection to the parameter server was refused: {}",
                                 guest.status().ToString());
                    }
                  });
  if (!started.ok()) {
    greetings_.pop_back();
    return started.status();
  }
  greeting.thread = std::move(started).value();
  ++greeting_;  // It may be over already.
  return {};
}

Result<Greeter::Guest> Greeter::Recognize(UniqueFd socket, bool local) {
  const Wait wait{.deadline = Deadline::After(kPatience), .check = [this] {
                    return stopping_ ? Status(ErrorKind::kReconnect, "the server ends") : Status();
                  }};
  const auto accepts = [this](net::Numbers numbers) -> Status {
    if (numbers.accepting == number_) return {};
    return {ErrorKind::kBadInput,
            fmt::format("it looks for server {}, and this is {}", numbers.accepting, number_)};
  };
  if (!local) net::TuneTcp(socket.get());
  // What is of this host goes through shared memory.
  const bool encrypt = encrypt_ && !local;
  TFOS_ASSIGN_OR_RETURN(const net::Peer peer,
                        net::Recognize(socket.get(), encrypt ? kEncryptedProtocol : kProtocol,
                                       token_, accepts, wait));
  if (!encrypt) {
    return Guest{.stream = std::make_unique<net::SocketStream>(std::move(socket)), .local = local};
  }
  TFOS_ASSIGN_OR_RETURN(
      auto stream,
      net::TlsStream::Open(std::move(socket), net::TlsStream::Side::kAccepting, peer.key, wait, {}));
  return Guest{.stream = std::move(stream), .local = false};
}

std::vector<Greeter::Guest> Greeter::Take() {
  std::uint64_t count = 0;
  // Empty when nobody has come since.
  [[maybe_unused]] const ssize_t got = ::read(ready_.get(), &count, sizeof(count));
  const MutexLock lock(mutex_);
  return std::exchange(guests_, {});
}

void Greeter::Signal() {
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its limit.
  [[maybe_unused]] const ssize_t written = ::write(ready_.get(), &one, sizeof(one));
}

}  // namespace tfos::parameter_server
