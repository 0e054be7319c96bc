// Nodes that train in step, with the coordinator's decisions and a barrier in place of the
// all-reduce. Whatever partitions, chunks and batches there are, nobody hangs, and:
//   kDrop   all make as many full batches; each row comes once at most, and fewer than a batch for
//           each node do not come
//   kPad    all make as many batches; each row comes once, and the batches hold fewer others than
//           a batch for each node
//   kJoin   each row comes once, and no node gets a batch more rows than another one. A node
//           without rows goes along with the others
// Each case is a random one, and its number is the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/offices/step_ticket_office.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/pass_rows.h"
#include "feed/read/steps/synchronous_batches.h"
#include "feed/read/test_chunks.h"
#include "node/step_messages.h"

namespace tfos {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr int kCases = 150;
/// Numbers of rows of different nodes are this far apart. A row of zeros fills a batch up.
constexpr std::uint64_t kNodeStride = 1'000'000;

/// For how many pieces of rows that a node passes on the first try fails, where the way is rough.
constexpr std::uint64_t kRough = 3;

/// What is between the agents and the coordinator, without the network. With a rough way some tries
/// to pass rows on fail: every other one before the rows have arrived, the rest after it. In the
/// last epoch all of them fail before, as a node that has got its rows leaves then: whether they
/// had arrived nobody could say.
class Office {
 public:
  Office(std::vector<feed::StepDesk*> nodes, std::vector<feed::Endpoint> endpoints,
         const Secret& token, std::uint32_t epochs, bool rough)
      : nodes_(std::move(nodes)), endpoints_(std::move(endpoints)) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const int id = static_cast<int>(i);
      members_.emplace(id, fmt::format("worker:{}", id));
      nodes_[i]->SetPasser(
          [token, epochs, tried = std::make_shared<std::uint64_t>(rough ? 0 : kRough)](
              const feed::StepGrant& grant, const feed::RowPass& pass,
              const feed::PassedPiece& piece) {
            const bool fails = *tried < kRough && *tried < piece.number;
            if (fails) *tried = piece.number;
            const Status late(ErrorKind::kRetryLater, "the other node is slow");
            if (fails && (piece.number % 2 == 0 || grant.epoch + 1 == epochs)) return late;
            const Status passed =
                feed::PassRows(pass.to, token, grant.queue, grant.epoch, piece.chunk, piece.rows,
                               {.from = pass.from, .number = piece.number, .check = piece.check});
            return fails ? late : passed;
          });
      nodes_[i]->SetSender([this, id](const feed::StepReport& report) {
        const std::lock_guard lock(mutex_);
        Tell(office_.Report(id, node::MessageOf(report), members_));
        return Status::Ok();
      });
    }
  }

  void Leave(int id) {
    const std::lock_guard lock(mutex_);
    members_.erase(id);
    Tell(office_.MembersChanged(members_));
  }

 private:
  void Tell(const std::vector<control::StepTickets>& changed) {
    for (const control::StepTickets& tickets : changed) {
      feed::StepGrant grant = node::GrantOf(tickets);
      for (feed::RowPass& pass : grant.passes) pass.to = endpoints_[pass.to.node_id];
      for (const auto& [id, name] : members_) {
        nodes_[static_cast<std::size_t>(id)]->OnGrant(grant);
      }
    }
  }

  std::mutex mutex_;
  control::StepTicketOffice office_;
  control::StepTicketOffice::Members members_;
  std::vector<feed::StepDesk*> nodes_;
  std::vector<feed::Endpoint> endpoints_;
};

/// A step that ends when all nodes have begun it.
class AllReduce {
 public:
  explicit AllReduce(std::size_t nodes) : nodes_(nodes) {}

  /// How many nodes had rows for the step; none when the others did not come.
  std::optional<std::size_t> Step(bool has_rows) {
    std::unique_lock lock(mutex_);
    const std::uint64_t step = steps_;
    if (has_rows) ++with_rows_;
    if (++waiting_ == nodes_) {
      waiting_ = 0;
      with_rows_of_last_ = std::exchange(with_rows_, 0);
      ++steps_;
      changed_.notify_all();
      return with_rows_of_last_;
    }
    if (!changed_.wait_for(lock, kLong, [&] { return steps_ != step; })) return std::nullopt;
    // Nobody can end the next step before this node begins it.
    return with_rows_of_last_;
  }

 private:
  const std::size_t nodes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t waiting_ = 0;
  std::size_t with_rows_ = 0;
  std::size_t with_rows_of_last_ = 0;
  std::uint64_t steps_ = 0;
};

struct Case {
  feed::Remainder remainder = feed::Remainder::kDrop;
  std::uint64_t batch = 1;
  std::vector<std::vector<std::uint64_t>> rows;  ///< Of each node and epoch.
  std::uint64_t chunk_rows = 1;                  ///< At most.
  bool replayed = false;                         ///< The first epoch is the only one that is fed.
  bool tells_waits = false;                      ///< As nodes of an elastic cluster.

  std::size_t nodes() const { return rows.size(); }
  std::size_t epochs() const { return rows[0].size(); }
  /// Which of its epochs a node gets in this one.
  std::size_t FedIn(std::size_t epoch) const { return replayed ? 0 : epoch; }
  /// The numbers of the rows that a node is fed in an epoch.
  std::vector<std::uint64_t> RowsOf(std::size_t node, std::size_t epoch) const {
    const auto of_node = rows[node].begin();
    std::vector<std::uint64_t> numbers(rows[node][epoch]);
    std::iota(
        numbers.begin(), numbers.end(),
        std::accumulate(of_node, of_node + static_cast<std::ptrdiff_t>(epoch), node * kNodeStride));
    return numbers;
  }
};

Case MakeCase(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  constexpr feed::Remainder kRemainders[] = {feed::Remainder::kJoin, feed::Remainder::kDrop,
                                             feed::Remainder::kPad};
  Case made{.remainder = kRemainders[below(3)],
            .batch = 1 + below(5),
            .rows = {},
            .chunk_rows = 1 + below(400),
            .replayed = below(3) == 0,
            .tells_waits = below(2) == 0};
  const std::uint64_t nodes = 2 + below(4);
  const std::uint64_t epochs = 1 + below(4);
  for (std::uint64_t node = 0; node < nodes; ++node) {
    made.rows.emplace_back();
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      // None, a few, or far more than a node looks ahead.
      const std::uint64_t most[] = {1, 3, 40, 400};
      made.rows.back().push_back(below(most[below(4)]));
    }
  }
  return made;
}

/// What a node has got of an epoch.
struct Pass {
  std::uint64_t steps = 0;
  std::uint64_t filled = 0;  ///< Rows of zeros.
  std::vector<std::uint64_t> rows;

  void Add(const feed::Batch& batch) {
    ++steps;
    const auto numbers = feed::Numbers<std::int64_t>(batch.columns[0].data);
    ASSERT_GE(numbers.size(), batch.rows);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i < batch.rows) {
        rows.push_back(static_cast<std::uint64_t>(numbers[i]));
      } else {
        EXPECT_EQ(numbers[i], 0);
        ++filled;
      }
    }
  }
};

/// Returns how many rows were fed in it.
std::uint64_t CheckEpoch(const Case& given, std::size_t epoch, const std::vector<Pass>& passes) {
  std::vector<std::uint64_t> fed;
  for (std::size_t i = 0; i < given.nodes(); ++i) {
    std::ranges::copy(given.RowsOf(i, given.FedIn(epoch)), std::back_inserter(fed));
  }
  std::vector<std::uint64_t> came;
  std::uint64_t filled = 0;
  for (const Pass& pass : passes) {
    std::ranges::copy(pass.rows, std::back_inserter(came));
    filled += pass.filled;
  }
  std::ranges::sort(came);
  const std::uint64_t batch_each = given.nodes() * given.batch;
  if (given.remainder == feed::Remainder::kDrop) {
    EXPECT_EQ(std::ranges::adjacent_find(came), came.end()) << "a row comes twice";
    EXPECT_TRUE(std::ranges::includes(fed, came)) << "a row of another epoch comes";
    EXPECT_LT(fed.size() - came.size(), batch_each) << "rows do not come";
  } else {
    EXPECT_TRUE(came == fed) << came.size() << " rows come of " << fed.size();
  }
  EXPECT_LT(filled, batch_each);
  const auto [least, most] = std::ranges::minmax(
      passes | std::views::transform([](const Pass& pass) { return pass.rows.size(); }));
  for (const Pass& pass : passes) {
    if (given.remainder == feed::Remainder::kJoin) {
      EXPECT_EQ(pass.steps, (pass.rows.size() + given.batch - 1) / given.batch);
    } else {
      EXPECT_EQ(pass.rows.size() + pass.filled, pass.steps * given.batch) << "full batches";
      EXPECT_EQ(pass.steps, passes[0].steps);
    }
  }
  if (given.remainder == feed::Remainder::kJoin) {
    EXPECT_EQ(filled, 0u);
    // The rows may not divide evenly among batches of one.
    EXPECT_LT(most - least, std::max<std::uint64_t>(given.batch, 2));
  }
  return fed.size();
}

class SynchronousTrainingTest : public ::testing::TestWithParam<int> {
 protected:
  /// Partitions of any size, one after the other.
  void Feed(feed::FeedServer& server, const Case& given, std::size_t node) const {
    std::mt19937_64 random(node);
    const auto epochs = static_cast<std::uint32_t>(given.epochs());
    const std::uint32_t fed_epochs = given.replayed ? 1 : epochs;
    for (std::uint32_t epoch = 0; epoch < fed_epochs; ++epoch) {
      const std::vector<std::uint64_t> rows = given.RowsOf(node, epoch);
      const feed::ReplayOptions replay = {
          .place = feed::CachePlace::kMemory, .epochs = epochs - fed_epochs, .shuffle_seed = 7};
      std::uint32_t partitions = 0;
      for (std::span<const std::uint64_t> left = rows; !left.empty();) {
        const std::size_t count = 1 + random() % left.size();
        FeedPartition(
            server, given,
            {.key = {.job = {1}, .epoch = epoch, .partition = partitions++}, .replay = replay},
            left.first(count), random);
        left = left.subspan(count);
      }
      server.EndEpoch("input", given.replayed ? epochs - 1 : epoch);
    }
    server.EndFeed();
  }

  void FeedPartition(feed::FeedServer& server, const Case& given,
                     const feed::SessionOptions& session, std::span<const std::uint64_t> rows,
                     std::mt19937_64& random) const {
    auto client = feed::FeedClient::Connect(server.endpoint(), key_, {.progress_timeout = kLong},
                                            Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open(session).ok());
    for (std::uint64_t sent = 0; sent < rows.size();) {
      const std::uint64_t count = std::min(rows.size() - sent, 1 + random() % given.chunk_rows);
      const std::vector<std::byte> chunk =
          feed::MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}},
                          rows[sent], count, chunk::RowNodeKind::kNone);
      auto room = (*client)->Reserve(chunk.size());
      ASSERT_TRUE(room.ok());
      std::memcpy(room->data(), chunk.data(), chunk.size());
      ASSERT_TRUE((*client)->Commit(chunk.size(), {sent, sent + count}).ok());
      sent += count;
    }
    ASSERT_TRUE((*client)->Finish().ok());
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
};

TEST_P(SynchronousTrainingTest, NodesEndEpochsTogether) {
  SCOPED_TRACE(fmt::format(
      "synchronous_training_test --gtest_filter='Random/*.NodesEndEpochsTogether/{}' runs it again",
      GetParam()));
  const Case given = MakeCase(static_cast<std::uint64_t>(GetParam()));
  const std::size_t nodes = given.nodes();
  std::vector<std::unique_ptr<feed::FeedServer>> servers;
  std::vector<std::unique_ptr<feed::StepDesk>> tickets;
  std::vector<feed::StepDesk*> borrowed;
  for (std::size_t i = 0; i < nodes; ++i) {
    auto server = feed::FeedServer::Start({.node_id = static_cast<std::uint32_t>(i),
                                           .key = key_,
                                           .cluster_id = "c1",
                                           .bind_address = ""});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    servers.push_back(std::move(*server));
    tickets.push_back(std::make_unique<feed::StepDesk>());
    if (given.tells_waits) tickets.back()->TellWaits();
    borrowed.push_back(tickets.back().get());
  }
  std::vector<feed::Endpoint> endpoints;
  for (const auto& server : servers) endpoints.push_back(server->endpoint());
  Office office(borrowed, endpoints, key_, static_cast<std::uint32_t>(given.epochs()),
                GetParam() % 6 == 0);
  AllReduce all_reduce(nodes);
  std::vector<std::vector<Pass>> passes(nodes);  // Of each node and epoch.
  std::vector<std::uint64_t> dropped(nodes);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < nodes; ++i) {
    threads.emplace_back([&, i] { Feed(*servers[i], given, i); });
    threads.emplace_back([&, i] {
      feed::BatchReader reader(*servers[i], "input", nullptr);
      feed::SynchronousBatches batches(reader, *tickets[i], "input");
      const feed::BatchOptions options = {
          .rows = given.batch, .columns = {{.name = "0", .dtype = chunk::DType::kInt64}}};
      Pass pass;
      for (;;) {
        const auto next =
            batches.Next(given.remainder, options, {.deadline = Deadline::After(kLong)});
        ASSERT_TRUE(next.ok()) << next.status().DebugString();
        if (std::holds_alternative<feed::EndOfFeed>(*next)) break;
        if (std::holds_alternative<feed::EndOfEpoch>(*next)) {
          passes[i].push_back(std::exchange(pass, {}));
          // It goes along with those that have rows.
          bool others_have_rows = given.remainder == feed::Remainder::kJoin;
          while (others_have_rows) {
            const std::optional<std::size_t> with_rows = all_reduce.Step(false);
            ASSERT_TRUE(with_rows) << "node " << i << " waits at the end of an epoch";
            others_have_rows = *with_rows > 0;
          }
          continue;
        }
        pass.Add(std::get<feed::Batch>(*next));
        ASSERT_TRUE(all_reduce.Step(true)) << "node " << i << " waits for the others";
      }
      dropped[i] = reader.dropped_rows();
      office.Leave(static_cast<int>(i));
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::uint64_t fed = 0;
  std::uint64_t came = std::accumulate(dropped.begin(), dropped.end(), std::uint64_t{0});
  for (std::size_t epoch = 0; epoch < given.epochs(); ++epoch) {
    SCOPED_TRACE(fmt::format("epoch {}", epoch));
    std::vector<Pass> of_epoch;
    for (std::vector<Pass>& of_node : passes) {
      ASSERT_GT(of_node.size(), epoch);
      of_epoch.push_back(std::move(of_node[epoch]));
      came += of_epoch.back().rows.size();
    }
    fed += CheckEpoch(given, epoch, of_epoch);
  }
  EXPECT_EQ(came, fed) << "rows came or were dropped";
  if (given.remainder != feed::Remainder::kDrop) {
    EXPECT_THAT(dropped, testing::Each(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Random, SynchronousTrainingTest, ::testing::Range(0, kCases));

}  // namespace
}  // namespace tfos
