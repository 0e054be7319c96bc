#include "feed/read/position/merged_position.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

enum class Kind : std::uint64_t { kTrained = 0, kTrainedOfPassed = 1, kPassed = 2 };

/// Kind, number, partition, items from and to, checksum, rows, rows from and to.
constexpr std::size_t kNumbersInPart = 9;
using Numbers = std::array<std::uint64_t, kNumbersInPart>;
constexpr std::size_t kNumbersInJob = 2;
using Job = std::array<std::uint64_t, kNumbersInJob>;
constexpr std::size_t kNumbersInHead = 1 + kNumbersInJob;

Numbers NumbersOf(Kind kind, std::uint64_t number, const EpochLog::Part& part) {
  const ChunkOrigin& origin = *part.origin;
  return {static_cast<std::uint64_t>(kind),
          number,
          origin.partition,
          origin.chunk.items.begin,
          origin.chunk.items.end,
          origin.chunk.checksum,
          origin.rows,
          part.rows.begin,
          part.rows.end};
}

Job JobOf(const JobId& id) {
  Job job{};
  static_assert(sizeof(job) == sizeof(id));
  std::memcpy(job.data(), id.data(), sizeof(id));
  return job;
}

/// A chunk, and what was trained on of it.
using Chunks =
    std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t>,
             ItemRanges>;

void Add(Chunks& chunks, const TrainedRows& line) {
  chunks[{line.partition, line.chunk.items.begin, line.chunk.items.end, line.chunk.checksum,
          line.rows}]
      .Add(line.trained);
}

Status Unknown(std::string what) { return {ErrorKind::kUnsupported, std::move(what)}; }

/// What the nodes say, by kind.
struct Heard {
  std::optional<Job> job;
  std::vector<TrainedRows> trained;
  /// By the node that has passed them on, and its number for them.
  std::map<std::pair<std::uint64_t, std::uint64_t>, TrainedRows> passed;
  std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, ItemRange>> taken_over;
};

Status Hear(std::span<const std::uint64_t> node, Heard& heard) {
  const auto bad = [] { return Status(ErrorKind::kBadInput, "these numbers make no position"); };
  if (node.size() < kNumbersInHead || (node.size() - kNumbersInHead) % kNumbersInPart != 0) {
    return bad();
  }
  Job job{};
  std::copy_n(node.begin() + 1, job.size(), job.begin());
  const std::uint64_t node_id = node[0];
  for (node = node.subspan(kNumbersInHead); !node.empty(); node = node.subspan(kNumbersInPart)) {
    Numbers numbers{};
    std::copy_n(node.begin(), numbers.size(), numbers.begin());
    const auto& [kind, number, partition, begin, end, checksum, rows, first, last] = numbers;
    const TrainedRows line{
        .partition = static_cast<std::uint32_t>(partition),
        .chunk = {.items = {begin, end}, .checksum = static_cast<std::uint32_t>(checksum)},
        .rows = rows,
        .trained = {first, last}};
    switch (Kind{kind}) {
      case Kind::kTrained:
      case Kind::kPassed:
        if (heard.job.value_or(job) != job) {
          return Unknown("the rows of the epoch came of more than one Spark job");
        }
        heard.job = job;
        if (Kind{kind} == Kind::kTrained) {
          heard.trained.push_back(line);
        } else {
          heard.passed[{node_id, number}] = line;
        }
        break;
      case Kind::kTrainedOfPassed:
        heard.taken_over.push_back({{partition, number}, {first, last}});
        break;
      default:
        return bad();
    }
  }
  return {};
}

}  // namespace

std::vector<std::uint64_t> Encode(std::uint32_t node_id, const EpochLog::Position& position) {
  std::vector<std::uint64_t> numbers(kNumbersInHead);
  numbers[0] = node_id;
  const auto add = [&](Kind kind, std::uint64_t number, const EpochLog::Part& part) {
    if (kind != Kind::kTrainedOfPassed) {
      const Job job = JobOf(part.origin->job);
      std::copy(job.begin(), job.end(), numbers.begin() + 1);
    }
    const Numbers line = NumbersOf(kind, number, part);
    numbers.insert(numbers.end(), line.begin(), line.end());
  };
  for (const EpochLog::Part& part : position.trained) {
    add(part.origin->passed ? Kind::kTrainedOfPassed : Kind::kTrained, part.origin->number, part);
  }
  for (const auto& [number, part] : position.passed) add(Kind::kPassed, number, part);
  return numbers;
}

Result<std::vector<TrainedRows>> Merged(const std::vector<std::span<const std::uint64_t>>& nodes,
                                        const std::vector<TrainedRows>& before) {
  Heard heard;
  for (const std::span<const std::uint64_t>& node : nodes) {
    TFOS_RETURN_IF_ERROR(Hear(node, heard));
  }
  Chunks chunks;
  for (const TrainedRows& line : before) Add(chunks, line);
  for (const TrainedRows& line : heard.trained) Add(chunks, line);
  for (const auto& [piece, rows] : heard.taken_over) {
    const auto found = heard.passed.find(piece);
    if (found == heard.passed.end()) {
      return Unknown(
          "rows were passed on by a node that has not said so, or is not there any more");
    }
    TrainedRows line = found->second;
    line.trained = rows;
    Add(chunks, line);
  }
  std::vector<TrainedRows> merged;
  std::optional<TrainedRows> last;
  for (const auto& [chunk, trained] : chunks) {
    const auto& [partition, begin, end, checksum, rows] = chunk;
    if (last && last->partition == partition && last->chunk.items.end > begin) {
      return Unknown(fmt::format("items {} to {} of partition {} came twice, in other chunks",
                                 begin, end - 1, partition));
    }
    for (const ItemRange& range : trained.ranges()) {
      last = TrainedRows{.partition = partition,
                         .chunk = {.items = {begin, end}, .checksum = checksum},
                         .rows = rows,
                         .trained = range};
      merged.push_back(*last);
    }
  }
  return merged;
}

}  // namespace tfos::feed
