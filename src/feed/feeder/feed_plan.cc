#include "feed/feeder/feed_plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/time/seconds.h"

namespace tfos::feed {
namespace {

using Json = nlohmann::json;

/// The agent of a node that does not answer is to be the first to say so: it knows more.
constexpr std::chrono::duration<double> kForAgents{10};

Status Bad(std::string_view what) {
  return {ErrorKind::kBadInput, fmt::format("the plan of the feed {}", what)};
}

/// Reads the members of an object; the first one that is not as it must be is the failure.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  template <typename T>
  void Read(const char* name, T& value) {
    const auto found = object_.find(name);
    if (found == object_.end() || !Fits<T>(*found)) {
      if (status_.ok()) status_ = Bad(fmt::format("lacks '{}', or has something odd there", name));
      return;
    }
    value = found->get<T>();
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  static bool Fits(const Json& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value.is_boolean();
    } else if constexpr (std::is_same_v<T, std::string>) {
      return value.is_string();
    } else if constexpr (std::is_floating_point_v<T>) {
      return value.is_number();
    } else {
      return value.is_number_unsigned() &&
             value.get<std::uint64_t>() <= std::numeric_limits<T>::max();
    }
  }

  const Json& object_;
  Status status_;
};

struct PlannedEndpoint {
  Endpoint endpoint;
  std::string executor_id;
};

Result<PlannedEndpoint> ReadEndpoint(const Json& entry) {
  if (!entry.is_object()) return Bad("has an endpoint that is not an object");
  PlannedEndpoint planned;
  Members members(entry);
  members.Read("node_id", planned.endpoint.node_id);
  members.Read("socket", planned.endpoint.unix_name);
  members.Read("address", planned.endpoint.host);
  members.Read("port", planned.endpoint.port);
  members.Read("executor_id", planned.executor_id);
  TFOS_RETURN_IF_ERROR(members.status());
  return planned;
}

/// [first item, the item after the last, checksum, whether all of its rows were trained on]
Result<TrainedChunk> ReadTrainedChunk(const Json& entry) {
  const bool is_one = entry.is_array() && entry.size() == 4 && entry[0].is_number_unsigned() &&
                      entry[1].is_number_unsigned() && entry[2].is_number_unsigned() &&
                      entry[2].get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max() &&
                      entry[3].is_boolean();
  if (!is_one) return Bad("has something odd in 'trained'");
  TrainedChunk trained{
      .chunk = {.items = {entry[0].get<std::uint64_t>(), entry[1].get<std::uint64_t>()},
                .checksum = entry[2].get<std::uint32_t>()},
      .whole = entry[3].get<bool>()};
  if (trained.chunk.items.begin >= trained.chunk.items.end) {
    return Bad("has a chunk without items in 'trained'");
  }
  return trained;
}

/// Without what it says of other partitions: an earlier cluster may have trained on millions of
/// chunks. Never throws: the message of the parser's exception would repeat parts of the text.
Json Parse(std::string_view plan, const std::string& partition) {
  bool in_trained = false;
  const auto keep = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) in_trained = parsed == "trained";
    return depth != 2 || !in_trained || parsed == partition;
  };
  return Json::parse(plan, keep, /*allow_exceptions=*/false);
}

Result<CachePlace> ReadCachePlace(std::string_view name) {
  if (name.empty()) return CachePlace::kNone;
  if (name == "memory") return CachePlace::kMemory;
  if (name == "disk") return CachePlace::kDisk;
  return Bad(fmt::format("has the cache '{}', which is neither 'memory' nor 'disk'", name));
}

/// Half of a byte; 16 for anything else than a hexadecimal digit.
unsigned HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<unsigned>(digit - 'a') + 10;
  return 16;
}

/// Spark deals consecutive partitions to the executors in turn: with the partition's number taken
/// as it is, all that one executor gets could begin with the same node (Knuth's multiplicative
/// hash).
std::uint32_t Mixed(std::uint32_t partition) { return (partition * 2654435761U) >> 16; }

void Rotate(std::span<PlannedEndpoint> endpoints, std::uint32_t partition) {
  if (endpoints.empty()) return;
  const auto first = Mixed(partition) % endpoints.size();
  std::ranges::rotate(endpoints, endpoints.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

Result<JobId> ReadJobId(std::string_view hex) {
  JobId job{};
  if (hex.size() != 2 * job.size()) {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("a job id of {} hexadecimal digits instead of {}", hex.size(), 2 * job.size()));
  }
  for (std::size_t i = 0; i < job.size(); ++i) {
    const unsigned high = HexDigit(hex[2 * i]);
    const unsigned low = HexDigit(hex[2 * i + 1]);
    if (high > 15 || low > 15) {
      return Status(ErrorKind::kBadInput, "a job id that is not hexadecimal");
    }
    job[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return job;
}

Result<PartitionWriterOptions> ReadFeedPlan(std::string_view plan, const FeedTask& task) {
  const std::string partition = std::to_string(task.partition);
  const Json json = Parse(plan, partition);
  if (!json.is_object()) return Bad("is not a JSON object");
  std::string key;
  std::string encrypt;
  std::string job_id;
  std::string cache;
  double timeout_seconds = 0;
  double answer_timeout_seconds = 0;
  PartitionWriterOptions options;
  SessionOptions& session = options.session;
  Members members(json);
  members.Read("feed_key", key);
  members.Read("encrypt", encrypt);
  members.Read("pickle", options.pickles);
  members.Read("job_id", job_id);
  members.Read("queue", session.queue);
  members.Read("epoch", session.key.epoch);
  members.Read("timeout", timeout_seconds);
  members.Read("answer_timeout", answer_timeout_seconds);
  members.Read("region_bytes", session.region_bytes);
  members.Read("cache", cache);
  members.Read("replays", session.replay.epochs);
  members.Read("shuffle_seed", session.replay.shuffle_seed);
  members.Read("until_read", session.until_read);
  members.Read("check_retries", options.check_retries);
  members.Read("bears_losses", options.bears_losses);
  members.Read("repeats", options.repeats);
  TFOS_RETURN_IF_ERROR(members.status());
  TFOS_ASSIGN_OR_RETURN(options.key, Secret::FromHex(key));
  TFOS_ASSIGN_OR_RETURN(options.encryption, net::EncryptionFromWord(encrypt));
  const Result<JobId> job = ReadJobId(job_id);
  if (!job.ok()) return Bad("has " + job.status().ToString());
  session.key.job = *job;
  TFOS_ASSIGN_OR_RETURN(session.replay.place, ReadCachePlace(cache));
  session.key.partition = task.partition;
  session.attempt = task.attempt;
  session.mode = task.mode;
  session.until_read = session.until_read && task.mode == Mode::kTrain;
  options.progress_timeout = SaturatingSeconds(timeout_seconds);
  options.connect_timeout = options.progress_timeout;
  if (answer_timeout_seconds > 0) {
    options.connect_timeout = std::min(
        options.progress_timeout, SaturatingSeconds(answer_timeout_seconds + kForAgents.count()));
  }

  const auto trained = json.find("trained");
  if (trained == json.end() || !trained->is_object()) return Bad("has no object 'trained'");
  // Uncompared, rows would be left out in place of those that were trained on.
  if (!trained->empty() && !options.check_retries)
    return Bad("has 'trained', and compares nothing");
  const auto of_partition = trained->find(partition);
  if (of_partition != trained->end() && task.mode == Mode::kTrain) {
    for (const Json& entry : *of_partition) {
      TFOS_ASSIGN_OR_RETURN(options.trained.emplace_back(), ReadTrainedChunk(entry));
    }
  }
  session.without_trained = !options.trained.empty();
  const auto endpoints = json.find("endpoints");
  if (endpoints == json.end() || !endpoints->is_array()) return Bad("has no list 'endpoints'");
  std::vector<PlannedEndpoint> planned;
  for (const Json& entry : *endpoints) {
    TFOS_ASSIGN_OR_RETURN(PlannedEndpoint endpoint, ReadEndpoint(entry));
    planned.push_back(std::move(endpoint));
  }
  const auto others = std::ranges::stable_partition(
      planned, [&](const PlannedEndpoint& e) { return e.executor_id == task.executor_id; });
  Rotate({planned.begin(), others.begin()}, task.partition);
  Rotate({others.begin(), others.end()}, task.partition);
  for (PlannedEndpoint& endpoint : planned) {
    options.endpoints.push_back(std::move(endpoint.endpoint));
  }
  return options;
}

}  // namespace tfos::feed
