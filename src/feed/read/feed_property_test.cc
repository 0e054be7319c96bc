// Whatever partitions, chunks and batches there are, and whenever tasks die and are run again, or
// nodes die and are not: every row arrives exactly once. Each case is a random one, and its number
// is the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/thread/mutex.h"
#include "feed/feeder/partition_writer.h"
#include "feed/node/feed_server.h"
#include "feed/read/batch_reader.h"
#include "feed/read/test_chunks.h"

namespace tfos::feed {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr int kCases = 400;
constexpr std::uint64_t kRegionBytes = 64 * 1024;
/// Numbers of rows in different partitions are this far apart.
constexpr std::uint64_t kPartitionStride = 1'000'000;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// 0 to limit - 1.
  std::uint64_t Below(std::uint64_t limit) { return engine_() % limit; }
  bool Chance(std::uint64_t one_in) { return Below(one_in) == 0; }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 1;
  bool remote = false;                    ///< Over TCP.
  std::vector<std::uint64_t> partitions;  ///< Rows of each.
  std::uint64_t batch_rows = 1;
  std::uint64_t failure_one_in = 0;  ///< Of chunks; 0: none.
  /// Feeders wait until their rows are read, and all nodes but the last die after some batches.
  bool nodes_die = false;
  std::vector<TestColumn> columns;
};

Case MakeCase(std::uint64_t seed) {
  Random random(seed);
  Case made{.seed = seed,
            .nodes = static_cast<std::uint32_t>(1 + random.Below(3)),
            .remote = random.Chance(3),
            .partitions = {},
            .batch_rows = 1 + random.Below(40),
            .failure_one_in = random.Chance(4) ? 0 : 2 + random.Below(12),
            .columns = {{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}}};
  if (made.nodes > 1 && !made.remote && random.Chance(2)) {
    made.nodes_die = true;
    // If tasks die too, rows may come twice, but none may be missing.
    if (random.Chance(2)) made.failure_one_in = 0;
  }
  const std::uint64_t partitions = random.Below(8);
  for (std::uint64_t i = 0; i < partitions; ++i) {
    // Very unequal ones, and empty ones.
    made.partitions.push_back(random.Chance(4) ? 0 : random.Below(random.Chance(3) ? 600 : 20));
  }
  if (random.Chance(2)) {
    made.columns.push_back({.kind = chunk::RowNodeKind::kNumpyArray,
                            .dtype = chunk::DType::kFloat32,
                            .shape = {1 + random.Below(90)}});
  }
  if (random.Chance(2)) made.columns.push_back({.kind = chunk::RowNodeKind::kText});
  if (random.Chance(3)) {
    made.columns.push_back(
        {.kind = chunk::RowNodeKind::kNumberList, .dtype = chunk::DType::kInt64, .ragged = true});
  }
  return made;
}

std::vector<columns::BatchColumnType> TypesOf(const std::vector<TestColumn>& columns) {
  std::vector<columns::BatchColumnType> types;
  for (const TestColumn& column : columns) {
    columns::BatchColumnType type{.name = std::to_string(types.size()), .dtype = column.dtype};
    if (column.kind == chunk::RowNodeKind::kText) {
      type.encoding = columns::BatchEncoding::kStrings;
    } else if (column.ragged) {
      type.encoding = columns::BatchEncoding::kRagged;
    } else {
      type.shape = column.shape;
    }
    types.push_back(std::move(type));
  }
  return types;
}

/// Checks the other columns of a batch against its rows' numbers, and returns those.
std::vector<std::uint64_t> RowsOf(const Batch& batch, const std::vector<TestColumn>& columns) {
  std::vector<std::uint64_t> rows;
  for (const std::int64_t n : Numbers<std::int64_t>(batch.columns[0].data)) {
    rows.push_back(static_cast<std::uint64_t>(n));
  }
  for (std::size_t i = 1; i < columns.size(); ++i) {
    const columns::HeldBytes& data = batch.columns[i].data;
    std::string expected;
    for (const std::uint64_t row : rows) {
      if (columns[i].kind == chunk::RowNodeKind::kText) {
        expected += Text(row);
      } else {
        const std::uint64_t elements = columns[i].ragged ? row % 3 : columns[i].shape[0];
        std::vector<std::byte> bytes(elements * chunk::DTypeBytes(columns[i].dtype));
        std::byte* to = bytes.data();
        StoreElements(columns[i].dtype, row, elements, to);
        expected.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
    std::string found(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
    for (const std::string_view text : batch.columns[i].strings) found += text;
    EXPECT_TRUE(found == expected) << "column " << i << " of a batch of " << rows.size();
  }
  return rows;
}

class FeedPropertyTest : public ::testing::TestWithParam<int> {
 protected:
  void StartNodes(const Case& given) {
    for (std::uint32_t i = 0; i < given.nodes; ++i) {
      auto server = FeedServer::Start({.node_id = i,
                                       .key = key_,
                                       .cluster_id = "c1",
                                       .bind_address = given.remote ? "127.0.0.1" : "",
                                       .memory_budget_bytes = 3 * kRegionBytes,
                                       .region_bytes = kRegionBytes});
      ASSERT_TRUE(server.ok()) << server.status().DebugString();
      servers_.push_back(std::move(*server));
    }
  }

  PartitionWriterOptions Options(const Case& given, std::uint32_t partition,
                                 AttemptId attempt) const {
    PartitionWriterOptions options;
    options.key = key_;
    options.session.key.partition = partition;
    options.session.attempt = attempt;
    options.session.until_read = given.nodes_die;
    options.session.key.job = {static_cast<std::uint8_t>(given.seed),
                               static_cast<std::uint8_t>(given.seed >> 8)};
    options.ask_ended = [this](const InterruptCheck& /*check*/) -> Result<std::set<std::uint32_t>> {
      const MutexLock lock(mutex_);
      return ended_;
    };
    options.progress_timeout = kLong;
    for (const auto& server : servers_) {
      options.endpoints.push_back(server->endpoint());
      options.endpoints.back().host = "127.0.0.1";
      if (given.remote) options.endpoints.back().unix_name.clear();
    }
    return options;
  }

  /// One attempt at a partition. Returns whether it ended well; it may die at any chunk.
  bool Attempt(const Case& given, std::uint32_t partition, AttemptId attempt, Random& random) {
    auto writer = PartitionWriter::Open(Options(given, partition, attempt));
    // Another attempt may have taken over, which is what this one would have been told later.
    EXPECT_TRUE(writer.ok() || !given.nodes_die || given.failure_one_in > 0)
        << writer.status().DebugString();
    if (!writer.ok()) return false;
    const std::uint64_t rows = given.partitions[partition];
    for (std::uint64_t row = 0; row < rows;) {
      const std::uint64_t begin = std::exchange(row, std::min(rows, row + 1 + random.Below(50)));
      // As the row writer does: what a node has already got is left out.
      for (std::uint64_t next = begin; next < row;) {
        const ItemRanges::Stretch stretch = (*writer)->delivered().From(next);
        const std::uint64_t first = std::exchange(next, std::min(row, stretch.end));
        if (stretch.contained) continue;
        const std::vector<std::byte> chunk = MakeChunk(
            given.columns, partition * kPartitionStride + first, next - first,
            given.columns.size() == 1 ? chunk::RowNodeKind::kNone : chunk::RowNodeKind::kTuple);
        const auto room = (*writer)->Reserve(chunk.size());
        EXPECT_TRUE(room.ok() || !given.nodes_die || given.failure_one_in > 0)
            << room.status().DebugString();
        if (!room.ok()) return false;
        std::memcpy(room->data(), chunk.data(), chunk.size());
        const Status sent = (*writer)->Commit(chunk.size(), {first, next});
        EXPECT_TRUE(sent.ok() || !given.nodes_die || given.failure_one_in > 0)
            << sent.DebugString();
        if (!sent.ok()) return false;
        if (given.failure_one_in > 0 && random.Chance(given.failure_one_in)) return false;
      }
    }
    const Status ended = (*writer)->Finish().status();
    EXPECT_TRUE(ended.ok() || !given.nodes_die || given.failure_one_in > 0) << ended.DebugString();
    return ended.ok();
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::vector<std::unique_ptr<FeedServer>> servers_;
  mutable Mutex mutex_;
  std::set<std::uint32_t> ended_ TFOS_GUARDED_BY(mutex_);  ///< Nodes.
};

TEST_P(FeedPropertyTest, EveryRowArrivesExactlyOnce) {
  const Case given = MakeCase(static_cast<std::uint64_t>(GetParam()));
  StartNodes(given);
  std::mutex mutex;
  std::map<std::uint64_t, int> arrived;
  std::vector<std::thread> consumers;
  for (const auto& server : servers_) {
    consumers.emplace_back([&, node = server.get()] {
      BatchReader reader(*node, "input", nullptr);
      Random random(given.seed * 1000 + node->endpoint().node_id);
      const bool dies = given.nodes_die && node != servers_.back().get();
      std::uint64_t batches = dies ? random.Below(20) : std::numeric_limits<std::uint64_t>::max();
      const BatchOptions options = {.rows = given.batch_rows, .columns = TypesOf(given.columns)};
      for (;;) {
        const Result<BatchResult> next = reader.Next(options, {.deadline = Deadline::After(kLong)});
        EXPECT_TRUE(next.ok()) << next.status().DebugString();
        if (!next.ok()) return node->Terminate();  // Else the tasks would wait for it.
        if (std::holds_alternative<EndOfFeed>(*next)) return;
        if (!std::holds_alternative<Batch>(*next)) continue;
        const std::vector<std::uint64_t> rows = RowsOf(std::get<Batch>(*next), given.columns);
        const std::lock_guard lock(mutex);
        for (const std::uint64_t row : rows) ++arrived[row];
        if (batches-- == 0) {
          node->Close();
          const MutexLock ended(mutex_);
          ended_.insert(node->endpoint().node_id);
          return;
        }
      }
    });
  }
  std::vector<std::thread> tasks;
  for (std::uint32_t partition = 0; partition < given.partitions.size(); ++partition) {
    tasks.emplace_back([&, partition] {
      Random random(given.seed * 1000 + partition);
      AttemptId attempt = 0;
      while (!Attempt(given, partition, attempt, random)) ASSERT_LT(++attempt, 10'000u);
      // Speculation: the same once more, when all is there. The nodes want none of it, if they
      // live.
      if (!given.nodes_die && random.Chance(3)) Attempt(given, partition, attempt + 1, random);
    });
  }
  for (std::thread& task : tasks) task.join();
  for (const auto& server : servers_) server->EndFeed();
  for (std::thread& consumer : consumers) consumer.join();

  std::map<std::uint64_t, int> expected;
  for (std::uint64_t partition = 0; partition < given.partitions.size(); ++partition) {
    for (std::uint64_t row = 0; row < given.partitions[partition]; ++row) {
      expected[partition * kPartitionStride + row] = 1;
    }
  }
  if (given.nodes_die) {
    // Those that waited in a dead node for the rest of their batch are gone with it.
    // So is what it was taking them from, if its task has died before it.
    const std::uint64_t rows_held = given.batch_rows - 1 + (given.failure_one_in > 0 ? 50 : 0);
    const std::uint64_t most_lost = (given.nodes - 1) * rows_held;
    EXPECT_LE(arrived.size(), expected.size());
    EXPECT_GE(arrived.size() + most_lost, expected.size());
    for (const auto& [row, times] : arrived) {
      EXPECT_TRUE(times == 1 || given.failure_one_in > 0) << "row " << row << ", " << times;
    }
    return;
  }
  EXPECT_TRUE(arrived == expected) << arrived.size() << " different rows of " << expected.size();
}

INSTANTIATE_TEST_SUITE_P(Random, FeedPropertyTest, ::testing::Range(0, kCases));

}  // namespace
}  // namespace tfos::feed
