#include "datasets/batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chunk/chunk.h"
#include "datasets/row_converter.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/read/test_chunks.h"
#include "tensorflow/tf_codes.h"
#include "testing/no_memory.h"

namespace tfos::datasets {

/// In place of the extension's, which needs Python. No rows of the tests get through it.
Result<AlignedBuffer> ConvertToColumns(std::span<const std::byte> /*chunk*/) {
  throw std::bad_variant_access();
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kLong(60);

tfos_batch_source registered{};

/// In place of the ops library's functions.
std::int64_t Register(const tfos_batch_source* source) {
  registered = *source;
  registered.retain(registered.context);
  return 7;
}
void Unregister(std::int64_t handle) {
  EXPECT_EQ(handle, 7);
  registered.release(registered.context);
}

class BatchSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = feed::FeedServer::Start({.key = key_,
                                           .cluster_id = "c1",
                                           .bind_address = "",
                                           .memory_budget_bytes = 256 << 10,
                                           .region_bytes = 64 << 10});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    feed_ = std::make_shared<node::NodeFeed>(std::move(*server));
    source_ = std::make_unique<BatchSource>(feed_, "input");
    const auto handle =
        source_->Register({.rows = 2, .columns = {{.name = "n", .dtype = chunk::DType::kInt64}}},
                          feed::Remainder::kNone, &Register, &Unregister);
    ASSERT_TRUE(handle.ok()) << handle.status().DebugString();
  }

  /// Feeds one item: a pickle that the server can't read itself.
  void FeedPickle() {
    chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
    builder.AddColumn({.encoding = chunk::ColumnEncoding::kOpaque,
                       .shape = {},
                       .values = 1,
                       .data_bytes = 3,
                       .name = {}});
    ASSERT_TRUE(builder.Plan().ok());
    auto client = feed::FeedClient::Connect(feed_->server().endpoint(), key_,
                                            {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open({.mode = feed::Mode::kTrain, .key = {.job = {1}}}).ok());
    const auto room = (*client)->Reserve(builder.bytes());
    ASSERT_TRUE(room.ok()) << room.status().DebugString();
    ASSERT_TRUE(builder.Begin(*room).ok());
    std::memcpy(builder.data(0).data(), "abc", 3);
    builder.SetStringBoundary(0, 1, 3);
    ASSERT_TRUE((*client)->Commit(builder.bytes(), {0, 1}).ok());
    ASSERT_TRUE((*client)->Finish().ok());
  }

  /// Feeds numbers from 0 on.
  void FeedNumbers(std::uint64_t rows) {
    const std::vector<std::byte> chunk =
        feed::MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}}, 0,
                        rows, chunk::RowNodeKind::kNone);
    auto client = feed::FeedClient::Connect(feed_->server().endpoint(), key_,
                                            {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open({.mode = feed::Mode::kTrain, .key = {.job = {1}}}).ok());
    const auto room = (*client)->Reserve(chunk.size());
    ASSERT_TRUE(room.ok()) << room.status().DebugString();
    std::memcpy(room->data(), chunk.data(), chunk.size());
    ASSERT_TRUE((*client)->Commit(chunk.size(), {0, rows}).ok());
    ASSERT_TRUE((*client)->Finish().ok());
  }

  /// The numbers of the next batch of a dataset; none at its end.
  static std::vector<std::int64_t> NumbersOf(const tfos_batch_source& dataset) {
    tfos_batch batch{};
    dataset.next(dataset.context, &batch);
    std::vector<std::int64_t> numbers;
    if (batch.code == tensorflow::kTfOk) {
      numbers.resize(batch.tensor[0].bytes / sizeof(std::int64_t));
      std::memcpy(numbers.data(), batch.tensor[0].data, batch.tensor[0].bytes);
    }
    dataset.release_batch(&batch);
    return numbers;
  }

  /// Code and text of the next batch.
  std::pair<std::int32_t, std::string> Next() {
    tfos_batch batch{};
    registered.next(registered.context, &batch);
    std::pair<std::int32_t, std::string> told(batch.code, batch.message ? batch.message : "");
    registered.release_batch(&batch);
    return told;
  }

  const Secret key_ = Secret::Generate().value();
  std::shared_ptr<node::NodeFeed> feed_;
  std::unique_ptr<BatchSource> source_;
};

TEST_F(BatchSourceTest, AnExceptionIsTheFailureThatItIs) {
  FeedPickle();
  const auto [code, message] = Next();
  EXPECT_EQ(code, tensorflow::kTfInternal);
  EXPECT_THAT(message, HasSubstr("bad variant access"));
}

TEST_F(BatchSourceTest, WhoWaitsForRowsDoesMeanwhileWhatOthersMayWaitFor) {
  feed_->SetWhileWaiting([this] { feed_->server().EndFeed(); });
  EXPECT_EQ(Next().first, tensorflow::kTfOutOfRange);
}

TEST_F(BatchSourceTest, AnExceptionWhileAnOpAwaitsIsWhatNextSays) {
  FeedPickle();
  while (registered.await(registered.context) != 0) {
  }
  const auto [code, message] = Next();
  EXPECT_EQ(code, tensorflow::kTfInternal);
  EXPECT_THAT(message, HasSubstr("bad variant access"));
}

TEST_F(BatchSourceTest, TheEndOfTheFeedIsTheEndOfTheDataset) {
  feed_->server().EndFeed();
  EXPECT_EQ(registered.await(registered.context), 0);
  EXPECT_EQ(Next().first, tensorflow::kTfOutOfRange);
  EXPECT_EQ(Next().first, tensorflow::kTfOutOfRange);
}

// Programs prefetch, leave a pass, and make a dataset anew for the next one.
TEST_F(BatchSourceTest, ABatchThatWasAwaitedForADatasetIsOneOfTheNextDatasetLikeIt) {
  const auto open = [this](std::uint64_t rows) {
    return *source_->Open({.rows = rows, .columns = {{.name = "0", .dtype = chunk::DType::kInt64}}},
                          feed::Remainder::kNone);
  };
  FeedNumbers(7);
  feed_->server().EndFeed();
  const std::vector<tfos_batch_source> datasets = {open(2), open(1), open(2)};
  const tfos_batch_source& dropped = datasets[0];
  dropped.begin(dropped.context);
  EXPECT_THAT(NumbersOf(dropped), ElementsAre(0, 1));
  while (dropped.await(dropped.context) != 0) {
  }
  const tfos_batch_source& other = datasets[1];
  other.begin(other.context);
  EXPECT_THAT(NumbersOf(other), ElementsAre(4)) << "its batches are of another size";
  const tfos_batch_source& next = datasets[2];
  next.begin(next.context);
  EXPECT_THAT(NumbersOf(next), ElementsAre(2, 3));
  EXPECT_THAT(NumbersOf(next), ElementsAre(5, 6));
  EXPECT_THAT(NumbersOf(next), IsEmpty());
  for (const tfos_batch_source& dataset : datasets) dataset.release(dataset.context);
}

#ifndef TFOS_SANITIZED
thread_local int allocations_left = 0;
bool RefuseLater(std::size_t /*bytes*/) { return --allocations_left < 0; }

// Where even the error finds no memory, it would go unnoticed.
TEST_F(BatchSourceTest, NoBatchIsLostWhereMemoryRunsOutWhileAnOpAwaitsIt) {
  constexpr int kRows = 2'000;
  FeedNumbers(kRows);
  feed_->server().EndFeed();
  source_->reader().KeepLog();
  const tfos_batch_source dataset =
      *source_->Open({.rows = 2, .columns = {{.name = "0", .dtype = chunk::DType::kInt64}}},
                     feed::Remainder::kNone);
  dataset.begin(dataset.context);
  bool was_refused = true;
  for (int row = 0; row < kRows; row += 2) {
    if (was_refused) {
      allocations_left = row / 2;
      tfos::testing::refuses_memory = &RefuseLater;
      dataset.await(dataset.context);
      tfos::testing::refuses_memory = nullptr;
      was_refused = allocations_left < 0;
    }
    std::vector<std::int64_t> numbers = NumbersOf(dataset);
    // It has said so, and a program may ask again.
    if (was_refused && numbers.empty()) numbers = NumbersOf(dataset);
    ASSERT_THAT(numbers, ElementsAre(row, row + 1));
  }
  EXPECT_FALSE(was_refused);
  EXPECT_THAT(NumbersOf(dataset), IsEmpty());
  dataset.release(dataset.context);
}
#endif

TEST_F(BatchSourceTest, AClosedSourceEndsWhatAnOpStillHolds) {
  registered.retain(registered.context);  // As an op does.
  source_->Close();
  EXPECT_EQ(Next().first, tensorflow::kTfOutOfRange);
  registered.release(registered.context);
  EXPECT_FALSE(source_->Register({.rows = 1}, feed::Remainder::kNone, &Register, &Unregister).ok());
}

}  // namespace
}  // namespace tfos::datasets
