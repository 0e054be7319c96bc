#ifndef TFOS_FEED_FEEDER_PASS_ROWS_H_
#define TFOS_FEED_FEEDER_PASS_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/crypto/secret.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Brings rows of an epoch from one node to another, which has fewer of it: the rows [begin, end)
/// of the chunk. Returns when the other node has accepted them. Any thread. Errors: those of
/// FeedClient; kReconnect says that the node is gone.
Status PassRows(const Endpoint& to, const Secret& token, const std::string& queue,
                std::uint32_t epoch, std::span<const std::byte> chunk, const ItemRange& rows);

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PASS_ROWS_H_
