#include "net/ack_watch.h"

// Newer than the C library's of the same name, with which it does not go together.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

#include "base/format.h"

namespace tfos::net {

std::optional<TcpProgress> ProgressOf(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked)) {
    return std::nullopt;  // a kernel that does not say
  }
  return TcpProgress{.awaits_acknowledgement = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                     .acknowledged_bytes = info.tcpi_bytes_acked,
                     .since_last = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

bool AckWatch::IsCut(const TcpProgress& progress, Clock::TimePoint now) {
  if (!progress.awaits_acknowledgement) {
    since_.reset();
    return false;
  }
  if (!since_ || progress.acknowledged_bytes != acknowledged_bytes_) since_ = now;
  acknowledged_bytes_ = progress.acknowledged_bytes;
  return std::min(now - *since_, progress.since_last) >= limit_;
}

Status CheckAcknowledged(AckWatch& watch, int socket) {
  const std::optional<TcpProgress> progress = ProgressOf(socket);
  if (!progress || !watch.IsCut(*progress, Clock::Steady().Now())) return {};
  return {ErrorKind::kReconnect,
          fmt::format("its host has acknowledged nothing for {} s: it is down, or the network "
                      "between the two hosts is cut",
                      std::chrono::floor<std::chrono::seconds>(progress->since_last).count())};
}

}  // namespace tfos::net
