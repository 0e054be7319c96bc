#ifndef TFOS_BASE_CRYPTO_PURPOSE_H_
#define TFOS_BASE_CRYPTO_PURPOSE_H_

#include <cstdint>
#include <string_view>

#include "base/crypto/secret.h"
#include "tfos/status.h"

namespace tfos {

/// What a key of a cluster is for. Each key is derived from the cluster's token, which stays with
/// the driver and its coordinator. One key leads to no other one.
enum class Purpose : std::uint8_t {
  kJoin,        ///< Agents, at the coordinator.
  kFeed,        ///< Feeders and nodes.
  kTensors,     ///< Nodes that exchange tensors.
  kParameters,  ///< Workers and parameter servers.
  kAsk,         ///< Spark's tasks, at the coordinator: has the cluster failed, or ended?
  kRead,        ///< People, at the coordinator: status and failures.
  kScrape,      ///< Prometheus: metrics, at the coordinator.
  kSteer,       ///< A client of Spark Connect, at the keeper of its coordinator.
  kOperate,     ///< People, at the coordinator: all that is read, to look into nodes, to stop them.
};

/// `join`, `feed`, `tensors`, `parameters`, `ask`, `read`, `scrape`, `steer`, `operate`.
std::string_view PurposeName(Purpose purpose);
/// Bad input for a name that is not one of those.
Result<Purpose> PurposeFromName(std::string_view name);

/// The key for `purpose` in the cluster whose token this is.
Secret KeyFor(const Secret& token, Purpose purpose);

}  // namespace tfos

#endif  // TFOS_BASE_CRYPTO_PURPOSE_H_
