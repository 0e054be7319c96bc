#ifndef TFOS_TESTING_SQUATTER_H_
#define TFOS_TESTING_SQUATTER_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/process/unique_fd.h"
#include "net/unix_address.h"

namespace tfos::testing {

/// A process of another user, with a socket of the name `name` and a queue of `backlog`, which
/// takes no connection. It ends with this.
class Squatter {
 public:
  Squatter(const std::string& name, int backlog) {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    const UniqueFd says(ready[0]);
    UniqueFd said(ready[1]);
    const auto address = net::AbstractAddress(name);
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) {
      const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool is_nobody = ::setuid(kNobody) == 0;
      // Only now: another user id takes the signal back.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool listens = is_nobody && ::getppid() == parent && address.ok() &&
                           ::bind(socket, address->get(), address->size) == 0 &&
                           ::listen(socket, backlog) == 0 && ::write(said.get(), "x", 1) == 1;
      if (listens) ::pause();
      ::_exit(1);
    }
    said.Reset();
    char listens = 0;
    EXPECT_EQ(::read(says.get(), &listens, 1), 1) << "it can't listen as another user";
  }
  ~Squatter() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  static constexpr uid_t kNobody = 65534;
  pid_t child_ = -1;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_SQUATTER_H_
