#ifndef TFOS_FEED_READ_BATCH_READER_FIXTURE_H_
#define TFOS_FEED_READ_BATCH_READER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "chunk/row_structure.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/read/batch_reader.h"
#include "feed/read/test_chunks.h"

// A BatchReader of a node that a real feeder feeds.

namespace tfos::feed {

inline constexpr auto kLong = std::chrono::seconds{60};
constexpr std::uint64_t kRegionBytes = 64 * 1024;
constexpr chunk::DType kFloat32 = chunk::DType::kFloat32;
constexpr chunk::DType kInt64 = chunk::DType::kInt64;

/// x: float32[16], 64 bytes a row, so that every row begins at a multiple of 64; y: int64.
inline std::vector<TestColumn> Wide() {
  return {{.kind = chunk::RowNodeKind::kNumpyArray, .dtype = kFloat32, .shape = {16}},
          {.kind = chunk::RowNodeKind::kInt, .dtype = kInt64}};
}

/// A chunk of one pickled batch.
inline std::vector<std::byte> PickledChunk(const std::string& pickle) {
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
  builder.AddColumn({.encoding = chunk::ColumnEncoding::kOpaque,
                     .dtype = chunk::DType::kNone,
                     .shape = {},
                     .values = 1,
                     .data_bytes = pickle.size(),
                     .name = {}});
  std::vector<std::byte> chunk(builder.Plan().value());
  EXPECT_TRUE(builder.Begin(chunk).ok());
  std::memcpy(builder.data(0).data(), pickle.data(), pickle.size());
  builder.SetStringBoundary(0, 1, pickle.size());
  return chunk;
}

inline AlignedBuffer InBuffer(const std::vector<std::byte>& chunk) {
  AlignedBuffer buffer(chunk.size());
  std::memcpy(buffer.bytes().data(), chunk.data(), chunk.size());
  return buffer;
}

class BatchReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.key = key_,
                           .cluster_id = "c1",
                           .bind_address = "",
                           .memory_budget_bytes = 4 * kRegionBytes,
                           .region_bytes = kRegionBytes});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
    reader_ = std::make_unique<BatchReader>(*server_, "input", nullptr);
    client_ = Open(Mode::kTrain);
  }

  std::unique_ptr<FeedClient> Open(Mode mode, bool until_read = false, std::uint32_t epoch = 0) {
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        server_->endpoint(), key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    EXPECT_TRUE(client.ok()) << client.status().DebugString();
    const Status opened =
        (*client)
            ->Open({.mode = mode,
                    .key = {.job = {1}, .epoch = epoch, .partition = partitions_++},
                    .until_read = until_read,
                    .without_trained = without_trained_})
            .status();
    EXPECT_TRUE(opened.ok()) << opened.DebugString();
    return std::move(*client);
  }

  void Put(std::span<const std::byte> chunk) {
    Result<std::span<std::byte>> room = client_->Reserve(chunk.size());
    ASSERT_TRUE(room.ok()) << room.status().DebugString();
    std::memcpy(room->data(), chunk.data(), chunk.size());
    ASSERT_TRUE(client_->Commit(chunk.size(), NextItem()).ok());
  }

  ItemRange NextItem() {
    const std::uint64_t item = items_++;
    return {item, item + 1};
  }

  /// All that was put is in the server's hands.
  void Finish() { ASSERT_TRUE(client_->Finish().ok()); }

  void FinishAndEndFeed() {
    Finish();
    server_->EndFeed();
  }

  /// The next batch of all columns of the first chunk.
  Result<BatchResult> Next(std::uint64_t rows, bool drop_remainder = false) {
    if (columns_.empty()) {
      auto peeked = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
      if (!peeked.ok()) return peeked.status();
      if (*peeked) columns_ = **peeked;
    }
    return reader_->Next({.rows = rows, .drop_remainder = drop_remainder, .columns = columns_},
                         {.deadline = Deadline::After(kLong)});
  }

  Batch NextBatch(std::uint64_t rows) {
    Result<BatchResult> next = Next(rows);
    EXPECT_TRUE(next.ok()) << next.status().DebugString();
    auto* batch = next.ok() ? std::get_if<Batch>(&*next) : nullptr;
    EXPECT_NE(batch, nullptr) << "a batch was expected";
    return batch == nullptr ? Batch{} : std::move(*batch);
  }

  /// What Next gives to the end: rows of batches, "epoch E", "over".
  std::vector<std::string> Outline(std::uint64_t rows, bool drop_remainder = false) {
    std::vector<std::string> outline;
    for (;;) {
      Result<BatchResult> next = Next(rows, drop_remainder);
      if (!next.ok()) {
        outline.push_back(next.status().ToString());
        return outline;
      }
      if (const auto* batch = std::get_if<Batch>(&*next)) {
        outline.push_back(std::to_string(batch->rows));
      } else if (const auto* end = std::get_if<EndOfEpoch>(&*next)) {
        outline.push_back(fmt::format("epoch {}", end->epoch));
      } else {
        outline.emplace_back("over");
        return outline;
      }
    }
  }

  std::string ErrorOf(std::vector<columns::BatchColumnType> columns, std::uint64_t rows = 1) {
    columns_ = std::move(columns);
    const Result<BatchResult> next = Next(rows);
    EXPECT_FALSE(next.ok());
    return next.status().ToString();
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  std::unique_ptr<FeedClient> client_;
  std::unique_ptr<BatchReader> reader_;
  std::vector<columns::BatchColumnType> columns_;
  bool without_trained_ = false;  ///< What feeders say that are opened from now on.
  std::uint32_t partitions_ = 0;
  std::uint64_t items_ = 0;  ///< Put so far.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_BATCH_READER_FIXTURE_H_
