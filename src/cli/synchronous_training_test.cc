// Nodes that train in step, with the coordinator's decisions and a barrier in place of the
// all-reduce. Whatever rows each gets, all make as many steps, and nobody hangs. With kJoin a node
// without rows goes along with the others, and no node has a batch more than another one. Each case
// is a random one, and its number is the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
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
            .replayed = below(3) == 0};
  const std::uint64_t nodes = 2 + below(3);
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

class SynchronousTrainingTest : public ::testing::TestWithParam<int> {
 protected:
  void Feed(feed::FeedServer& server, const Case& given,
            const std::vector<std::uint64_t>& rows) const {
    std::uint64_t first = 0;
    const auto epochs = static_cast<std::uint32_t>(rows.size());
    const std::uint32_t fed_epochs = given.replayed ? 1 : epochs;
    for (std::uint32_t epoch = 0; epoch < fed_epochs; ++epoch) {
      for (std::uint64_t fed = 0; fed < rows[epoch];) {
        auto client = feed::FeedClient::Connect(
            server.endpoint(), key_, {.progress_timeout = kLong}, Deadline::After(kLong));
        ASSERT_TRUE(client.ok()) << client.status().DebugString();
        ASSERT_TRUE((*client)
                        ->Open({.key = {.job = {1},
                                        .epoch = epoch,
                                        .partition = static_cast<std::uint32_t>(fed)},
                                .replay = {.place = feed::CachePlace::kMemory,
                                           .epochs = epochs - fed_epochs,
                                           .shuffle_seed = 7}})
                        .ok());
        const std::uint64_t count = std::min(rows[epoch] - fed, given.chunk_rows);
        const std::vector<std::byte> chunk =
            feed::MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}},
                            first, count, chunk::RowNodeKind::kNone);
        auto room = (*client)->Reserve(chunk.size());
        ASSERT_TRUE(room.ok());
        std::memcpy(room->data(), chunk.data(), chunk.size());
        ASSERT_TRUE((*client)->Commit(chunk.size(), {0, count}).ok());
        ASSERT_TRUE((*client)->Finish().ok());
        fed += count;
        first += count;
      }
      server.EndEpoch("input", given.replayed ? epochs - 1 : epoch);
    }
    server.EndFeed();
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
};

TEST_P(SynchronousTrainingTest, NodesEndEpochsTogether) {
  const Case given = MakeCase(static_cast<std::uint64_t>(GetParam()));
  const std::size_t nodes = given.rows.size();
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
    borrowed.push_back(tickets.back().get());
  }
  std::vector<feed::Endpoint> endpoints;
  for (const auto& server : servers) endpoints.push_back(server->endpoint());
  Office office(borrowed, endpoints, key_, static_cast<std::uint32_t>(given.rows[0].size()),
                GetParam() % 6 == 0);
  AllReduce all_reduce(nodes);
  std::vector<std::vector<std::uint64_t>> steps(nodes);      // Of each node and epoch.
  std::vector<std::vector<std::uint64_t>> rows_used(nodes);  // Likewise.
  std::vector<std::uint64_t> dropped(nodes);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < nodes; ++i) {
    threads.emplace_back([&, i] { Feed(*servers[i], given, given.rows[i]); });
    threads.emplace_back([&, i] {
      feed::BatchReader reader(*servers[i], "input", nullptr);
      feed::SynchronousBatches batches(reader, *tickets[i], "input");
      const feed::BatchOptions options = {
          .rows = given.batch, .columns = {{.name = "0", .dtype = chunk::DType::kInt64}}};
      std::uint64_t made = 0;
      std::uint64_t used = 0;
      for (;;) {
        const auto next =
            batches.Next(given.remainder, options, {.deadline = Deadline::After(kLong)});
        ASSERT_TRUE(next.ok()) << next.status().DebugString();
        if (std::holds_alternative<feed::EndOfFeed>(*next)) break;
        if (std::holds_alternative<feed::EndOfEpoch>(*next)) {
          steps[i].push_back(std::exchange(made, 0));
          rows_used[i].push_back(std::exchange(used, 0));
          // It goes along with those that have rows.
          bool others_have_rows = given.remainder == feed::Remainder::kJoin;
          while (others_have_rows) {
            const std::optional<std::size_t> with_rows = all_reduce.Step(false);
            ASSERT_TRUE(with_rows) << "node " << i << " waits at the end of an epoch";
            others_have_rows = *with_rows > 0;
          }
          continue;
        }
        const auto& batch = std::get<feed::Batch>(*next);
        used += batch.rows;
        ASSERT_TRUE(all_reduce.Step(true)) << "node " << i << " waits for the others";
        ++made;
      }
      dropped[i] = reader.dropped_rows();
      office.Leave(static_cast<int>(i));
    });
  }
  for (std::thread& thread : threads) thread.join();

  // With fewer rows than a batch for each node that are lost, or added.
  std::uint64_t all = 0;
  const std::uint64_t all_batches = nodes * given.batch;
  for (std::size_t epoch = 0; epoch < given.rows[0].size(); ++epoch) {
    std::uint64_t rows_of_epoch = 0;
    for (const auto& rows : given.rows) rows_of_epoch += rows[given.replayed ? 0 : epoch];
    all += rows_of_epoch;
    const std::uint64_t expected = given.remainder == feed::Remainder::kDrop
                                       ? rows_of_epoch / all_batches
                                       : (rows_of_epoch + all_batches - 1) / all_batches;
    if (given.remainder == feed::Remainder::kJoin) {
      std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
      std::uint64_t most = 0;
      for (std::size_t i = 0; i < nodes; ++i) {
        ASSERT_GT(steps[i].size(), epoch);
        least = std::min(least, rows_used[i][epoch]);
        most = std::max(most, rows_used[i][epoch]);
        EXPECT_EQ(steps[i][epoch], (rows_used[i][epoch] + given.batch - 1) / given.batch);
      }
      // The rows may not divide evenly among batches of one.
      EXPECT_LT(most - least, std::max<std::uint64_t>(given.batch, 2))
          << "rows, in epoch " << epoch;
      continue;
    }
    for (std::size_t i = 0; i < nodes; ++i) {
      ASSERT_GT(steps[i].size(), epoch);
      EXPECT_EQ(steps[i][epoch], expected) << "node " << i << " in epoch " << epoch;
    }
  }
  std::uint64_t used_or_dropped = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    used_or_dropped += std::accumulate(rows_used[i].begin(), rows_used[i].end(), dropped[i]);
    if (given.remainder != feed::Remainder::kDrop) {
      EXPECT_EQ(dropped[i], 0u);
    }
  }
  EXPECT_EQ(used_or_dropped, all);
}

INSTANTIATE_TEST_SUITE_P(Random, SynchronousTrainingTest, ::testing::Range(0, kCases));

}  // namespace
}  // namespace tfos
