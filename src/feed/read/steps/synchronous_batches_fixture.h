#ifndef TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_FIXTURE_H_
#define TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chunk/row_structure.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/read/steps/synchronous_batches.h"
#include "feed/read/test_chunks.h"

// Several nodes in one process, with the coordinator's decision made by hand.
namespace tfos::feed {

constexpr std::chrono::seconds kLong{60};
inline const BatchOptions kTwoRows = {
    .rows = 2,
    .drop_remainder = false,
    .columns = {
        {.name = "0", .encoding = columns::BatchEncoding::kDense, .dtype = chunk::DType::kInt64}}};

class TestNode {
 public:
  explicit TestNode(std::uint32_t id) {
    auto server =
        FeedServer::Start({.node_id = id, .key = key_, .cluster_id = "c1", .bind_address = ""});
    EXPECT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
    reader_ = std::make_unique<BatchReader>(*server_, "input", nullptr);
    batches_ = std::make_unique<SynchronousBatches>(*reader_, tickets_, "input");
  }

  /// Feeds a partition of this epoch with as many rows.
  void Feed(std::uint32_t epoch, std::uint64_t rows) {
    auto client = FeedClient::Connect(server_->endpoint(), key_, {.progress_timeout = kLong},
                                      Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    const SessionOptions session = {.key = {.job = {1}, .epoch = epoch, .partition = 0}};
    ASSERT_TRUE((*client)->Open(session).ok());
    const std::vector<std::byte> chunk =
        MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}}, next_row_,
                  rows, chunk::RowNodeKind::kNone);
    next_row_ += rows;
    auto room = (*client)->Reserve(chunk.size());
    ASSERT_TRUE(room.ok());
    std::memcpy(room->data(), chunk.data(), chunk.size());
    ASSERT_TRUE((*client)->Commit(chunk.size(), {0, rows}).ok());
    ASSERT_TRUE((*client)->Finish().ok());
  }

  FeedServer& server() { return *server_; }
  BatchReader& reader() { return *reader_; }
  StepDesk& tickets() { return tickets_; }
  SynchronousBatches& batches() { return *batches_; }

  /// The real rows of every batch to the end of the epoch.
  std::vector<std::uint64_t> Epoch(Remainder remainder) {
    std::vector<std::uint64_t> rows;
    for (;;) {
      Result<BatchResult> next =
          batches_->Next(remainder, kTwoRows, {.deadline = Deadline::After(kLong)});
      EXPECT_TRUE(next.ok()) << next.status().DebugString();
      if (!next.ok() || !std::holds_alternative<Batch>(*next)) return rows;
      const Batch& batch = std::get<Batch>(*next);
      if (remainder != Remainder::kJoin) {
        EXPECT_EQ(batch.columns[0].data.bytes.size(), 2 * sizeof(std::int64_t));
      }
      rows.push_back(batch.rows);
    }
  }

 private:
  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  std::unique_ptr<BatchReader> reader_;
  StepDesk tickets_;
  std::unique_ptr<SynchronousBatches> batches_;
  std::uint64_t next_row_ = 0;
};

class SynchronousBatchesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 2; ++i) {
      nodes_.push_back(std::make_unique<TestNode>(static_cast<std::uint32_t>(i)));
      nodes_[i]->tickets().SetSender([this, i](const StepReport& report) {
        reports_.push_back({i, report});
        return Status::Ok();
      });
    }
  }

  /// What the nodes make of an epoch with these rows, when the coordinator grants as it does.
  std::vector<std::vector<std::uint64_t>> RunEpoch(Remainder remainder, std::uint64_t first_rows,
                                                   std::uint64_t second_rows) {
    if (first_rows > 0) nodes_[0]->Feed(epoch_, first_rows);
    if (second_rows > 0) nodes_[1]->Feed(epoch_, second_rows);
    for (const auto& node : nodes_) node->server().EndEpoch("input", epoch_);
    // Both have ended, so the decision is known before either asks.
    const std::uint64_t full = std::min(first_rows, second_rows) / 2;
    const std::uint64_t longest = (std::max(first_rows, second_rows) + 1) / 2;
    std::vector<std::vector<std::uint64_t>> made;
    for (const auto& node : nodes_) {
      node->tickets().OnGrant({.queue = "input",
                               .epoch = epoch_,
                               .granted = full,
                               .final = true,
                               .longest = longest,
                               .ending = true,
                               .missing = {}});
      made.push_back(node->Epoch(remainder));
    }
    ++epoch_;
    return made;
  }

  std::vector<std::unique_ptr<TestNode>> nodes_;
  std::vector<std::pair<std::size_t, StepReport>> reports_;
  std::uint32_t epoch_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_FIXTURE_H_
