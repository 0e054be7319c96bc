#ifndef TFOS_FEED_FEEDER_PASS_ROWS_H_
#define TFOS_FEED_FEEDER_PASS_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::feed {

struct PassOptions {
  std::uint32_t from = 0;  ///< The node that passes the rows on.
  /// The number of these rows in that node's count from 1. The other node takes rows of the same
  /// number once, so a call that failed can be repeated. 0: it takes them each time.
  std::uint64_t number = 0;
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  InterruptCheck check = {};
};

/// Brings rows of an epoch from one node to another, which has fewer of it: the rows [begin, end)
/// of the chunk. Returns when the other node has accepted them. `key` is that of the purpose
/// `feed`. Any thread. Errors: those of FeedClient; kReconnect says that the node is gone, that it
/// wants no more rows and has not taken these, or that the connection broke.
Status PassRows(const Endpoint& to, const Secret& key, const std::string& queue,
                std::uint32_t epoch, std::span<const std::byte> chunk, const ItemRange& rows,
                const PassOptions& options = {});

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PASS_ROWS_H_
