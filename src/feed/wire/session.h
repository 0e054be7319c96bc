#ifndef TFOS_FEED_WIRE_SESSION_H_
#define TFOS_FEED_WIRE_SESSION_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace tfos::feed {

/// What a feeder wants of a partition.
enum class Mode : std::uint8_t {
  kTrain = 0,      ///< Rows go in; partitions mix in the order in which their chunks arrive.
  kInference = 1,  ///< Rows go in and as many come back, one partition after the other.
  kPass = 2,       ///< A node passes rows of an epoch on to another one, to end it evenly.
};

/// One Spark job that feeds; random, chosen by the driver.
using JobId = std::array<std::uint8_t, 16>;

/// Which rows a feeder brings: the same key means the same rows in the same order, so that a
/// retried task can skip what an earlier attempt delivered.
struct PartitionKey {
  JobId job{};
  std::uint32_t epoch = 0;
  std::uint32_t partition = 0;

  friend auto operator<=>(const PartitionKey&, const PartitionKey&) = default;
};

/// One of those who bring a partition: Spark's id of the task attempt (TID in its logs). It grows
/// through the application, also when a stage is repeated. So of two attempts that run at the same
/// time, each node knows the later one, whichever comes to it first.
using AttemptId = std::uint64_t;

/// Where a node keeps the rows of an epoch that it will hand out again.
enum class CachePlace : std::uint8_t {
  kNone = 0,
  kMemory = 1,  ///< And in a file what does not fit.
  kDisk = 2,    ///< In a file.
};

/// Epochs that follow the one being fed, of the same rows, which nobody feeds again.
struct ReplayOptions {
  CachePlace place = CachePlace::kNone;
  std::uint32_t epochs = 0;
  /// Another order of the chunks in each of them when not 0.
  std::uint64_t shuffle_seed = 0;

  friend bool operator==(const ReplayOptions&, const ReplayOptions&) = default;
};

/// What a feeder says of itself when it opens a partition.
struct SessionOptions {
  Mode mode = Mode::kTrain;
  std::string queue = "input";
  PartitionKey key = {};
  /// Training: the one that brings it. With kPass: the number of what is passed on.
  AttemptId attempt = 0;
  /// Shared memory wanted, in bytes; 0 leaves it to the node.
  std::uint64_t region_bytes = 0;
  /// Training only; the same for all partitions of an epoch.
  ReplayOptions replay = {};
  /// Training, without replays: the partition ends only when the program has read its rows, so that
  /// the feeder, which keeps them till then, can take what the node leaves unread to another one.
  bool until_read = false;
  /// Training: the program does not get what an earlier cluster has trained on. Else the epoch
  /// begins anew, with all rows.
  bool without_trained = false;
};

/// How much a node has accepted, by which feeders deal. The epoch counts first, so that each epoch
/// is dealt evenly, whatever came before: to other queues, or before a node joined. Units: bytes.
struct AcceptedBytes {
  std::uint64_t of_epoch = 0;  ///< Of the job and epoch that the feeder brings.
  std::uint64_t of_all = 0;    ///< Of all feeders since the node began.

  bool none() const { return of_all == 0; }

  friend auto operator<=>(const AcceptedBytes&, const AcceptedBytes&) = default;
};

/// Where a node's feed server can be reached.
struct Endpoint {
  /// Name in Linux's abstract socket namespace, without the leading NUL. Empty: none.
  std::string unix_name = {};
  /// TCP address for feeders of other hosts. Empty host or port 0: none.
  std::string host = {};
  std::uint16_t port = 0;
  std::uint32_t node_id = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_SESSION_H_
