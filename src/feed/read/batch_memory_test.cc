// The memory that batches lie in: when it is in place or copied, and when feeders get it back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "chunk/row_structure.h"
#include "feed/feeder/pass_rows.h"
#include "feed/read/batch_reader_fixture.h"
#include "feed/read/test_chunks.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

// Within one chunk and aligned: the bytes are where the feeder wrote them, so what it writes there
// later shows (no proper feeder does that).
TEST_F(BatchReaderTest, AnAlignedBatchInsideAChunkIsNotCopied) {
  const std::vector<std::byte> chunk = MakeChunk(Wide(), 0, 10);
  const Result<std::span<std::byte>> room = client_->Reserve(chunk.size());
  ASSERT_TRUE(room.ok());
  std::memcpy(room->data(), chunk.data(), chunk.size());
  ASSERT_TRUE(client_->Commit(chunk.size(), NextItem()).ok());
  const Batch first = NextBatch(4);
  const Batch second = NextBatch(4);
  std::memset(room->data(), 0x7f, room->size());
  const auto overwritten = [](const columns::HeldBytes& held) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.bytes.data()) % 64, 0u);
    return held.bytes[0] == std::byte{0x7f};
  };
  EXPECT_TRUE(overwritten(first.columns[0].data));
  EXPECT_TRUE(overwritten(second.columns[0].data));
  EXPECT_TRUE(overwritten(first.columns[1].data));
  EXPECT_FALSE(overwritten(second.columns[1].data)) << "4 * 8 bytes in is not aligned";
}

TEST_F(BatchReaderTest, MemoryIsTheFeedersAgainWhenTheLastBatchGoes) {
  Put(MakeChunk(Wide(), 0, 8));
  Finish();
  Batch first = NextBatch(4);
  Batch second = NextBatch(4);
  EXPECT_GT(server_->counters().region_bytes_in_use, 0u);
  columns::HeldBytes kept = first.columns[0].data;
  first = {};
  second = {};
  EXPECT_GT(server_->counters().region_bytes_in_use, 0u);
  EXPECT_EQ(Numbers<float>(kept)[16], 1.0F);
  std::thread([held = std::move(kept)] {}).join();  // On any thread.
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

// More than the region holds, and nothing is ever let go of: without giving memory back the feeder
// would wait for the consumer and the consumer for the feeder.
TEST_F(BatchReaderTest, AConsumerMayKeepEverything) {
  constexpr std::uint64_t kChunks = 100;
  constexpr std::uint64_t kRows = 100;  // About 8 KiB.
  std::vector<TestColumn> columns = Wide();
  columns.push_back({.kind = chunk::RowNodeKind::kText});
  std::thread feeder([&] {
    for (std::uint64_t i = 0; i < kChunks; ++i) Put(MakeChunk(columns, i * kRows, kRows));
    FinishAndEndFeed();
  });
  std::vector<Batch> kept;
  for (;;) {
    Result<BatchResult> next = Next(64);
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    auto* batch = std::get_if<Batch>(&*next);
    if (batch == nullptr) break;
    kept.push_back(std::move(*batch));
  }
  feeder.join();
  std::int64_t row = 0;
  for (const Batch& batch : kept) {
    const auto x = Numbers<float>(batch.columns[0].data);
    const auto y = Numbers<std::int64_t>(batch.columns[1].data);
    for (std::size_t i = 0; i < y.size(); ++i, ++row) {
      ASSERT_EQ(y[i], row);
      ASSERT_EQ(x[i * 16], static_cast<float>(row));
      ASSERT_EQ(batch.columns[2].strings[i], Text(static_cast<std::uint64_t>(row)));
    }
  }
  EXPECT_EQ(row, static_cast<std::int64_t>(kChunks * kRows));
}

TEST_F(BatchReaderTest, RowsGoOnToAnotherReaderFromTheEndOfTheEpoch) {
  const BatchOptions options = {.rows = 2, .columns = {{.name = "1", .dtype = kInt64}}};
  const Wait wait{.deadline = Deadline::After(kLong)};
  ASSERT_TRUE(reader_->LookAhead(options, 1, {.deadline = Deadline::After(0s)}).status().kind() ==
              ErrorKind::kRetryLater);
  Put(MakeChunk(Wide(), 0, 3));
  Put(MakeChunk(Wide(), 3, 4));
  FinishAndEndFeed();
  const Result<BatchReader::Ahead> ahead = reader_->LookToEnd(options, wait);
  ASSERT_TRUE(ahead.ok()) << ahead.status().DebugString();
  EXPECT_EQ(ahead->rows, 7u);
  EXPECT_EQ(ahead->passable_rows, 7u);
  EXPECT_TRUE(ahead->epoch_over);
  std::vector<ItemRange> passed;
  std::vector<std::byte> chunk;
  const auto pass = [&](std::span<const std::byte> bytes, const ItemRange& rows) {
    passed.push_back(rows);
    chunk.assign(bytes.begin(), bytes.end());
    return Status::Ok();
  };
  ASSERT_TRUE(reader_->PassOn(5, pass, wait).ok());
  EXPECT_THAT(passed, ElementsAre(ItemRange{0, 4}, ItemRange{2, 3}));
  EXPECT_EQ(reader_->LookToEnd(options, wait)->rows, 2u);

  // They come back behind the others; a range that the chunk does not hold is refused.
  const auto come_back = [&](const ItemRange& rows) {
    return PassRows(server_->endpoint(), key_, "input", 0, chunk, rows);
  };
  ASSERT_TRUE(come_back({1, 3}).ok());
  EXPECT_EQ(reader_->TakePassed(options, 0, wait)->rows, 2u);
  for (const std::vector<std::int64_t>& expected : {std::vector<std::int64_t>{0, 1}, {1, 2}}) {
    const Result<BatchResult> next = reader_->Next(options, wait);
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    EXPECT_EQ(Numbers<std::int64_t>(std::get<Batch>(*next).columns[0].data), expected);
  }
  ASSERT_TRUE(come_back({2, 4}).ok());
  EXPECT_EQ(reader_->TakePassed(options, 0, wait).status().kind(), ErrorKind::kBadInput);
}

class PeekedRowsTest : public BatchReaderTest {
 protected:
  /// The epoch ends with so many rows that were not read, and each may be passed on.
  void ExpectAllMayGoOn(std::uint64_t rows) {
    const auto ahead =
        reader_->LookAhead({.rows = rows + 1, .columns = {{.name = "1", .dtype = kInt64}}}, 1,
                           {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(ahead.ok()) << ahead.status().DebugString();
    EXPECT_EQ(ahead->rows, rows);
    EXPECT_EQ(ahead->passable_rows, rows);
  }
};

// A program without spec= peeks before anybody knows what is to become of the rows.
TEST_F(PeekedRowsTest, OfAChunkMayGoOn) {
  const Wait wait{.deadline = Deadline::After(kLong)};
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          [](std::span<const std::byte>) -> Result<AlignedBuffer> {
                                            return InBuffer(MakeChunk(Wide(), 0, 7));
                                          });
  Put(PickledChunk("abc"));
  ASSERT_TRUE(reader_->Peek({}, wait).ok());
  FinishAndEndFeed();
  ExpectAllMayGoOn(7);
}

TEST_F(PeekedRowsTest, OfEmptyListsMayGoOn) {
  const TestColumn empty{.kind = chunk::RowNodeKind::kList};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true};
  const TestColumn number{.kind = chunk::RowNodeKind::kInt, .dtype = kInt64};
  const Wait wait{.deadline = Deadline::After(kLong)};
  const std::vector<std::string> lists = {"0"};
  Put(MakeChunk({empty, number}, 0, 3));
  // Meanwhile it gives the feeder its memory back.
  ASSERT_TRUE(reader_->Peek({}, wait).ok());
  ASSERT_EQ(reader_->Peek(lists, {.deadline = Deadline::After(0s)}).status().kind(),
            ErrorKind::kRetryLater);
  Put(MakeChunk({ragged, number}, 3, 4));
  ASSERT_TRUE(reader_->Peek(lists, wait).ok());
  FinishAndEndFeed();
  ExpectAllMayGoOn(7);
}

// Another dataset of the queue asks what its rows hold while others wait for the rows of its end.
TEST_F(BatchReaderTest, RowsThatAreToGoOnStayWhenTheFeederGetsItsMemoryBack) {
  const BatchOptions options = {.rows = 2, .columns = {{.name = "1", .dtype = kInt64}}};
  const Wait wait{.deadline = Deadline::After(kLong)};
  int converted = 0;
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          [&](std::span<const std::byte>) -> Result<AlignedBuffer> {
                                            ++converted;
                                            return InBuffer(MakeChunk(Wide(), 7, 2));
                                          });
  ASSERT_EQ(reader_->LookAhead(options, 1, {.deadline = Deadline::After(0s)}).status().kind(),
            ErrorKind::kRetryLater);
  const std::vector<std::byte> columnar = MakeChunk(Wide(), 0, 7);
  const std::vector<std::byte> pickled = PickledChunk("abc");
  Put(columnar);
  Put(pickled);
  Finish();
  server_->EndEpoch("input", 0);
  ASSERT_EQ(reader_->LookToEnd(options, wait)->passable_rows, 9u);
  ASSERT_TRUE(std::holds_alternative<Batch>(*reader_->Next(options, wait)));
  // Twice: what it has copied it need not copy again.
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(reader_->Peek({}, {.deadline = Deadline::After(0s)}).status().kind(),
              ErrorKind::kRetryLater);
  }
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);

  std::vector<ItemRange> passed;
  std::vector<std::vector<std::byte>> chunks;
  const auto pass = [&](std::span<const std::byte> bytes, const ItemRange& rows) {
    passed.push_back(rows);
    chunks.emplace_back(bytes.begin(), bytes.end());
    return Status::Ok();
  };
  const Status on = reader_->PassOn(5, pass, wait);
  ASSERT_TRUE(on.ok()) << on.DebugString();
  EXPECT_THAT(passed, ElementsAre(ItemRange{0, 2}, ItemRange{4, 7}));
  EXPECT_THAT(chunks, ElementsAre(pickled, columnar));
  EXPECT_EQ(converted, 1);
  const Result<BatchResult> next = reader_->Next(options, wait);
  ASSERT_TRUE(next.ok()) << next.status().DebugString();
  EXPECT_THAT(Numbers<std::int64_t>(std::get<Batch>(*next).columns[0].data), ElementsAre(2, 3));
  EXPECT_EQ(reader_->PassOn(1, pass, wait).kind(), ErrorKind::kBadInput)
      << "another node would wait for it";
}

}  // namespace
}  // namespace tfos::feed
