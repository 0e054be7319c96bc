#ifndef TFOS_NET_OWN_UNIX_H_
#define TFOS_NET_OWN_UNIX_H_

#include <optional>
#include <string_view>

#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "tfos/status.h"

// Unix sockets of processes of this user. Everybody on the host can read the names of abstract
// sockets, and take one that is free. Threads: any.

namespace tfos::net {

/// Only a process of this user may be at the other end of a Unix socket. Bad input if it belongs to
/// another.
Status CheckUser(int socket);

/// As ConnectUnix, for a server that can be reached over TCP, too. None where nobody listens, where
/// another user has taken the name, and where nobody takes the connection for 2 s. The last two are
/// logged, and the process remembers the name: until the server takes a connection there again,
/// further calls neither wait nor log.
Result<std::optional<UniqueFd>> ConnectOwnUnix(std::string_view name, const Wait& wait);

/// As ConnectUnix, for a server that can't be reached otherwise. Errors: also bad input where
/// another user has taken the name; retry later where nobody takes the connection before the
/// deadline.
Result<std::optional<UniqueFd>> ConnectOnlyOwnUnix(std::string_view name, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_OWN_UNIX_H_
