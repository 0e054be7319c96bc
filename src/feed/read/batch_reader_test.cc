#include "feed/read/batch_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "chunk/row_structure.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/pass_rows.h"
#include "feed/read/test_chunks.h"
#include "feed/wire/read_position.h"
#include "testing/pickler.h"

namespace tfos::feed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr std::uint64_t kRegionBytes = 64 * 1024;
constexpr chunk::DType kFloat32 = chunk::DType::kFloat32;
constexpr chunk::DType kInt64 = chunk::DType::kInt64;

/// x: float32[16], 64 bytes a row, so that every row begins at a multiple of 64; y: int64.
std::vector<TestColumn> Wide() {
  return {{.kind = chunk::RowNodeKind::kNumpyArray, .dtype = kFloat32, .shape = {16}},
          {.kind = chunk::RowNodeKind::kInt, .dtype = kInt64}};
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
                    .until_read = until_read})
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
      auto peeked = reader_->Peek({.deadline = Deadline::After(kLong)});
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
  std::uint32_t partitions_ = 0;
  std::uint64_t items_ = 0;  ///< Put so far.
};

TEST_F(BatchReaderTest, BatchesCrossChunksAndKeepTheOrder) {
  Put(MakeChunk(Wide(), 0, 5));
  Put(MakeChunk(Wide(), 5, 1));
  Put(MakeChunk(Wide(), 6, 5));
  FinishAndEndFeed();
  std::vector<std::int64_t> rows;
  for (const std::uint64_t expected : {4u, 4u, 3u}) {
    const Batch batch = NextBatch(4);
    ASSERT_EQ(batch.rows, expected);
    ASSERT_EQ(batch.columns.size(), 2u);
    const auto x = Numbers<float>(batch.columns[0].data);
    const auto y = Numbers<std::int64_t>(batch.columns[1].data);
    ASSERT_EQ(x.size(), expected * 16);
    for (std::size_t i = 0; i < expected; ++i) {
      EXPECT_EQ(x[i * 16 + 3], static_cast<float>(y[i]) + 1.5F);
      rows.push_back(y[i]);
    }
  }
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Outline(4), ElementsAre("epoch 0", "over"));
  EXPECT_THAT(Outline(4), ElementsAre("over")) << "for ever";
  EXPECT_EQ(reader_->epochs(), 1u);
}

TEST_F(BatchReaderTest, ABatchDoesNotCrossAnEpoch) {
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 1);
  server_->EndEpoch("input", 2);
  server_->EndFeed();
  EXPECT_THAT(Outline(3), ElementsAre("3", "2", "epoch 0", "3", "2", "epoch 1", "epoch 2", "over"));
}

TEST_F(BatchReaderTest, TheRemainderMayBeDropped) {
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 0, 2));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(3, true), ElementsAre("3", "epoch 0", "epoch 1", "over"));
}

TEST_F(BatchReaderTest, PeekGoesAcrossEndsOfEpochsWithoutLosingThem) {
  server_->EndEpoch("input", 0);
  Put(MakeChunk(Wide(), 0, 1));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(3), ElementsAre("epoch 0", "1", "epoch 1", "over"));
}

TEST_F(BatchReaderTest, AFeedWithoutRowsHasNoColumns) {
  Put(MakeChunk(Wide(), 0, 0));
  FinishAndEndFeed();
  const auto peeked = reader_->Peek({.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(peeked.ok()) << peeked.status().DebugString();
  EXPECT_EQ(*peeked, std::nullopt);
  EXPECT_THAT(Outline(3), ElementsAre("over"));
}

TEST_F(BatchReaderTest, ASampleSaysWhatRowsHoldAndIsNoRow) {
  const std::vector<std::byte> chunk = MakeChunk(Wide(), 0, 5);
  Result<std::span<std::byte>> room = client_->Reserve(chunk.size());
  ASSERT_TRUE(room.ok()) << room.status().DebugString();
  std::memcpy(room->data(), chunk.data(), chunk.size());
  ASSERT_TRUE(client_->Commit(chunk.size(), {0, 0}, ReadTracker::kAllRows).ok());
  const auto columns = reader_->Peek({.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(columns.ok() && columns->has_value()) << "before the feed has ended";
  ASSERT_EQ((*columns)->size(), 2u);
  EXPECT_EQ((**columns)[0].shape, std::vector<std::uint64_t>{16});
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 7, 3));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(2), ElementsAre("epoch 0", "2", "1", "epoch 1", "over"));
  EXPECT_EQ(reader_->dropped_rows(), 0u);
}

TEST_F(BatchReaderTest, ColumnsAreNamedByKeyNameOrPosition) {
  const auto names = [&](const std::vector<std::byte>& chunk) {
    Put(chunk);
    Finish();
    client_ = Open(Mode::kTrain);
    BatchReader reader(*server_, "input", nullptr);
    const auto peeked = reader.Peek({.deadline = Deadline::After(kLong)});
    EXPECT_TRUE(peeked.ok()) << peeked.status().DebugString();
    std::vector<std::string> found;
    for (const columns::BatchColumnType& type : **peeked) found.push_back(type.name);
    return found;
  };
  std::vector<TestColumn> columns = Wide();
  columns[1].name = "label";
  EXPECT_THAT(names(MakeChunk(columns, 0, 1)), ElementsAre("0", "label"));
  columns[0].name = "image";
  EXPECT_THAT(names(MakeChunk(columns, 0, 1, chunk::RowNodeKind::kDict)),
              ElementsAre("image", "label"));
  EXPECT_THAT(names(MakeChunk({columns[1]}, 0, 1, chunk::RowNodeKind::kNone)),
              ElementsAre("label"));
  columns[1].name = "";
  EXPECT_THAT(names(MakeChunk({columns[1]}, 0, 1, chunk::RowNodeKind::kNone)), ElementsAre("0"));
}

TEST_F(BatchReaderTest, ColumnsAreChosenAndOrdered) {
  Put(MakeChunk(Wide(), 7, 1));
  columns_ = {{.name = "1", .dtype = kInt64}};
  const Batch batch = NextBatch(1);
  ASSERT_EQ(batch.columns.size(), 1u);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].data), ElementsAre(7));
}

TEST_F(BatchReaderTest, StringsAndRaggedValues) {
  const std::vector<TestColumn> columns = {
      {.kind = chunk::RowNodeKind::kText},
      {.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true}};
  Put(MakeChunk(columns, 0, 3));
  Put(MakeChunk(columns, 3, 4));
  FinishAndEndFeed();
  const Batch first = NextBatch(2);
  EXPECT_THAT(first.columns[0].strings, ElementsAre("", "1"));
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].boundaries), ElementsAre(0, 0, 1));
  const Batch second = NextBatch(4);  // Rows 2 to 5, of two chunks.
  EXPECT_THAT(second.columns[0].strings, ElementsAre("22", "333", "", "5"));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].data), ElementsAre(2, 2, 4, 5, 5));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].boundaries), ElementsAre(0, 2, 2, 3, 5));
  const Batch third = NextBatch(4);
  EXPECT_EQ(third.rows, 1u);
  EXPECT_THAT(third.columns[0].strings, ElementsAre("66"));
  EXPECT_THAT(third.columns[1].data.bytes, IsEmpty());
}

TEST_F(BatchReaderTest, ListsOfStrings) {
  const TestColumn pairs{.kind = chunk::RowNodeKind::kStringList, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kStringList, .ragged = true};
  Put(MakeChunk({pairs, ragged}, 0, 3));
  Put(MakeChunk({pairs, ragged}, 3, 4));
  FinishAndEndFeed();
  const Batch first = NextBatch(2);
  EXPECT_THAT(columns_[0].shape, ElementsAre(2));
  EXPECT_EQ(columns_[1].encoding, columns::BatchEncoding::kRaggedStrings);
  EXPECT_THAT(first.columns[0].strings, ElementsAre("", "1", "1", "22"));
  EXPECT_THAT(first.columns[1].strings, ElementsAre("1"));
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].boundaries), ElementsAre(0, 0, 1));
  const Batch second = NextBatch(4);  // Rows 2 to 5, of two chunks.
  EXPECT_THAT(second.columns[0].strings, ElementsAre("22", "333", "333", "", "", "5", "5", "66"));
  EXPECT_THAT(second.columns[1].strings, ElementsAre("22", "333", "", "5", "66"));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].boundaries), ElementsAre(0, 2, 2, 3, 5));
  const Batch third = NextBatch(4);
  EXPECT_THAT(third.columns[0].strings, ElementsAre("66", "777"));
  EXPECT_THAT(third.columns[1].strings, IsEmpty());
  EXPECT_THAT(Numbers<std::int64_t>(third.columns[1].boundaries), ElementsAre(0, 0));
}

TEST_F(BatchReaderTest, ListsOfStringsThatWaitForTheirBatchAreCopied) {
  const std::vector<TestColumn> columns = {
      {.kind = chunk::RowNodeKind::kStringList, .shape = {2}},
      {.kind = chunk::RowNodeKind::kStringList, .ragged = true},
      {.kind = chunk::RowNodeKind::kText}};
  Put(MakeChunk(columns, 4, 3));
  EXPECT_EQ(NextBatch(1).rows, 1u);
  const Result<BatchResult> short_wait =
      reader_->Next({.rows = 3, .columns = columns_}, {.deadline = Deadline::After({})});
  EXPECT_EQ(short_wait.status().kind(), ErrorKind::kRetryLater);
  Put(MakeChunk(columns, 7, 2));
  const Batch batch = NextBatch(3);  // Rows 5 and 6 as copies, and 7.
  EXPECT_THAT(batch.columns[0].strings, ElementsAre("5", "66", "66", "777", "777", ""));
  EXPECT_THAT(batch.columns[1].strings, ElementsAre("5", "66", "777"));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[1].boundaries), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(batch.columns[2].strings, ElementsAre("5", "66", "777"));
}

TEST_F(BatchReaderTest, ListsOfStringsOfOneLengthPassAsRaggedWhenDeclared) {
  const TestColumn two{.kind = chunk::RowNodeKind::kStringList, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kStringList, .ragged = true};
  Put(MakeChunk({two}, 0, 2));
  Put(MakeChunk({ragged}, 2, 1));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings}}),
              AllOf(HasSubstr("column '0' comes as strings[2] and was strings in"),
                    Not(HasSubstr("ragged="))));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings, .shape = {3}}}),
              HasSubstr("was strings[3] in the first chunk or in spec=: if its length varies, say "
                        "ragged=['0']"));
  EXPECT_THAT(
      ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kRagged, .dtype = kInt64}}),
      HasSubstr("was ragged int64"));
  columns_ = {{.name = "0", .encoding = columns::BatchEncoding::kRaggedStrings}};
  const Batch batch = NextBatch(3);
  EXPECT_THAT(batch.columns[0].strings, ElementsAre("", "1", "1", "22", "22", "333"));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].boundaries), ElementsAre(0, 2, 4, 6));
}

TEST_F(BatchReaderTest, DenseValuesPassAsRaggedWhenDeclared) {
  const TestColumn two{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true};
  Put(MakeChunk({two, two}, 0, 2));
  Put(MakeChunk({ragged, two}, 2, 1));
  FinishAndEndFeed();
  columns_ = {{.name = "0", .encoding = columns::BatchEncoding::kRagged, .dtype = kInt64}};
  const Batch batch = NextBatch(3);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].data), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].boundaries), ElementsAre(0, 2, 4, 6));
}

TEST_F(BatchReaderTest, OtherTypesThanWantedAreNamed) {
  Put(MakeChunk(Wide(), 0, 4));
  EXPECT_THAT(ErrorOf({{.name = "1", .dtype = kFloat32}}),
              HasSubstr("column '1' comes as int64[] and was float32[]"));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kFloat32, .shape = {4, 4}}}),
              HasSubstr("comes as float32[16] and was float32[4, 4]"));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kFloat32, .shape = {15}}}),
              HasSubstr("ragged=['0']"));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings}}),
              HasSubstr("and was strings"));
  EXPECT_THAT(ErrorOf({{.name = "2", .dtype = kFloat32}}),
              HasSubstr("no column '2'; they have 0, 1"));
}

TEST_F(BatchReaderTest, ATypeThatChangesBetweenChunksIsAnError) {
  std::vector<TestColumn> columns = Wide();
  Put(MakeChunk(columns, 0, 3));
  columns[0].shape = {4, 4};
  Put(MakeChunk(columns, 3, 3));
  FinishAndEndFeed();
  EXPECT_EQ(NextBatch(2).rows, 2u);
  for (int i = 0; i < 2; ++i) {
    const Result<BatchResult> next = Next(2);
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.status().kind(), ErrorKind::kBadInput);
    EXPECT_THAT(next.status().ToString(), HasSubstr("comes as float32[4, 4] and was float32[16]"));
  }
}

TEST_F(BatchReaderTest, NestedRowsAreNamed) {
  std::string structure;
  chunk::AppendRowStructure(
      Node(chunk::RowNodeKind::kDict,
           {Node(chunk::RowNodeKind::kTuple, {Node(chunk::RowNodeKind::kInt)})}, {"pair"}),
      structure);
  chunk::ChunkBuilder builder(chunk::ChunkKind::kColumnar, 1, structure);
  builder.AddColumn({.dtype = kInt64, .shape = {}, .values = 1, .name = {}});
  std::vector<std::byte> bytes(builder.Plan().value());
  ASSERT_TRUE(builder.Begin(bytes).ok());
  Put(bytes);
  for (int i = 0; i < 2; ++i) {
    const auto peeked = reader_->Peek({.deadline = Deadline::After(kLong)});
    ASSERT_FALSE(peeked.ok());
    EXPECT_THAT(peeked.status().ToString(),
                HasSubstr("column 'pair' of the rows is a tuple of different things"));
  }
}

TEST_F(BatchReaderTest, AnInferenceFeedIsRefused) {
  client_ = Open(Mode::kInference);
  Put(MakeChunk(Wide(), 0, 1));
  const auto peeked = reader_->Peek({.deadline = Deadline::After(kLong)});
  ASSERT_FALSE(peeked.ok());
  EXPECT_THAT(peeked.status().ToString(), HasSubstr("data_feed(train=False)"));
}

/// A chunk of one pickled batch.
std::vector<std::byte> PickledChunk(const std::string& pickle) {
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

AlignedBuffer InBuffer(const std::vector<std::byte>& chunk) {
  AlignedBuffer buffer(chunk.size());
  std::memcpy(buffer.bytes().data(), chunk.data(), chunk.size());
  return buffer;
}

TEST_F(BatchReaderTest, PickledRowsThatAreColumnsAreNotConverted) {
  Put(PickledChunk(Pickler().Ints({1, 2, 3}).Stop()));
  Put(PickledChunk(Pickler().Ints({4, 5}).Stop()));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          [](std::span<const std::byte>) -> Result<AlignedBuffer> {
                                            return Status(ErrorKind::kBug, "left to Python");
                                          });
  EXPECT_THAT(Numbers<std::int64_t>(NextBatch(4).columns[0].data), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Numbers<std::int64_t>(NextBatch(4).columns[0].data), ElementsAre(5));
}

TEST_F(BatchReaderTest, OtherPickledChunksAreConverted) {
  const std::vector<std::byte> pickled = PickledChunk("abc");
  Put(pickled);
  Put(pickled);
  int converted = 0;
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", [&](std::span<const std::byte> chunk) -> Result<AlignedBuffer> {
        EXPECT_EQ(chunk.size(), pickled.size());
        if (++converted == 2) return Status(ErrorKind::kBadInput, "they have nothing in common");
        return InBuffer(MakeChunk(Wide(), 40, 2));
      });
  const Batch batch = NextBatch(2);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[1].data), ElementsAre(40, 41));
  const Result<BatchResult> next = Next(2);
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.status().ToString(), HasSubstr("nothing in common"));
}

/// Converts to two rows, and fails the first time.
BatchReader::Converter FailsOnce(std::function<Status()> failure) {
  return [failure = std::move(failure),
          calls = 0](std::span<const std::byte>) mutable -> Result<AlignedBuffer> {
    if (calls++ == 0) return failure();
    return InBuffer(MakeChunk(Wide(), 40, 2));
  };
}

TEST_F(BatchReaderTest, AChunkThatNoMemoryWasLeftForIsNotLost) {
  Put(PickledChunk("abc"));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", FailsOnce([] { return Status(ErrorKind::kNoResources, "no memory"); }));
  EXPECT_EQ(Next(2).status().kind(), ErrorKind::kNoResources);
  EXPECT_THAT(Outline(2), ElementsAre("2", "epoch 0", "over"));
}

TEST_F(BatchReaderTest, AChunkThatAnExceptionCameBetweenIsNotLost) {
  Put(PickledChunk("abc"));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          FailsOnce([]() -> Status { throw std::bad_alloc(); }));
  EXPECT_THROW(static_cast<void>(Next(2)), std::bad_alloc);
  EXPECT_THAT(Outline(2), ElementsAre("2", "epoch 0", "over"));
}

TEST_F(BatchReaderTest, RowsOfAnotherNodeThatNoMemoryWasLeftForAreNotLost) {
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", FailsOnce([] { return Status(ErrorKind::kNoResources, "no memory"); }));
  const BatchOptions options = {.rows = 2, .columns = {{.name = "1", .dtype = kInt64}}};
  const Wait wait{.deadline = Deadline::After(kLong)};
  ASSERT_TRUE(PassRows(server_->endpoint(), key_, "input", 0, PickledChunk("abc"), {0, 2}).ok());
  EXPECT_EQ(reader_->TakePassed(options, 0, wait).status().kind(), ErrorKind::kNoResources);
  const Result<std::uint64_t> taken = reader_->TakePassed(options, 0, wait);
  ASSERT_TRUE(taken.ok()) << taken.status().DebugString();
  EXPECT_EQ(*taken, 2u);
}

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

TEST_F(BatchReaderTest, AWaitThatEndsLosesNoRow) {
  Put(MakeChunk(Wide(), 0, 3));
  const auto types = reader_->Peek({.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(types.ok() && *types);
  columns_ = **types;
  const Result<BatchResult> early =
      reader_->Next({.rows = 5, .columns = columns_}, {.deadline = Deadline::After(10ms)});
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.status().kind(), ErrorKind::kRetryLater);
  Finish();
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u) << "nothing is held while it waits";
  client_ = Open(Mode::kTrain);
  Put(MakeChunk(Wide(), 3, 3));
  const Batch first = NextBatch(2);
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].data), ElementsAre(0, 1));
  const Batch second = NextBatch(3);
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].data), ElementsAre(2, 3, 4));
}

TEST_F(BatchReaderTest, ACallThatWaitsDoesNotHoldUpAnotherOnesDeadlineAndCheck) {
  std::promise<void> waits;
  std::atomic<bool> over = false;
  const auto check = [&, told = false]() mutable {
    if (!std::exchange(told, true)) waits.set_value();
    return Status::Ok();
  };
  std::thread first([&] {
    EXPECT_TRUE(reader_->Peek({.deadline = Deadline::After(kLong), .check = check}).ok());
    over = true;
  });
  waits.get_future().wait();
  const BatchOptions options = {.rows = 1, .columns = {}};
  EXPECT_EQ(reader_->Next(options, {.deadline = Deadline::After(1ms)}).status().kind(),
            ErrorKind::kRetryLater);
  EXPECT_EQ(reader_->EndEpoch({.check = [] { return Status(ErrorKind::kInterrupted, "stop"); }})
                .status()
                .kind(),
            ErrorKind::kInterrupted);
  EXPECT_FALSE(over) << "the first one still waits for rows";
  FinishAndEndFeed();
  first.join();
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
  EXPECT_EQ(*reader_->TakePassed(options, 0, wait), 2u);
  for (const std::vector<std::int64_t>& expected : {std::vector<std::int64_t>{0, 1}, {1, 2}}) {
    const Result<BatchResult> next = reader_->Next(options, wait);
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    EXPECT_EQ(Numbers<std::int64_t>(std::get<Batch>(*next).columns[0].data), expected);
  }
  ASSERT_TRUE(come_back({2, 4}).ok());
  EXPECT_EQ(reader_->TakePassed(options, 0, wait).status().kind(), ErrorKind::kBadInput);
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
    ASSERT_EQ(reader_->Peek({.deadline = Deadline::After(0s)}).status().kind(),
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

TEST_F(BatchReaderTest, TerminateEndsAWait) {
  columns_ = {{.name = "0", .dtype = kInt64}};
  std::thread consumer([&] { EXPECT_THAT(Outline(4), ElementsAre("over")); });
  server_->Terminate();
  consumer.join();
}

TEST_F(BatchReaderTest, ABatchHasRows) {
  EXPECT_EQ(reader_->Next({.rows = 0}, {}).status().kind(), ErrorKind::kBadInput);
}

TEST_F(BatchReaderTest, AFeederThatAskedHearsWhatWasHandedOut) {
  client_ = Open(Mode::kTrain, /*until_read=*/true);
  Put(MakeChunk(Wide(), 0, 10, chunk::RowNodeKind::kTuple));
  Put(MakeChunk(Wide(), 10, 10, chunk::RowNodeKind::kTuple));
  const auto unread = [&] {
    std::vector<std::uint64_t> rows_read;
    for (const UnreadChunk& chunk : client_->Unread()) rows_read.push_back(chunk.rows_read);
    return rows_read;
  };
  const Batch first = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(4, 0));
  const Batch second = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(8, 0));
  const Batch third = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(2)) << "the first is still held";
  const Batch fourth = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(6));
  std::jthread finish([&] { Finish(); });
  // The rest fills no batch, and nobody may wait for more: the next partition may not have begun.
  EXPECT_EQ(reader_->Next({.rows = 8, .columns = columns_}, {.deadline = Deadline::After(300ms)})
                .status()
                .kind(),
            ErrorKind::kRetryLater);
  finish.join();
  server_->EndFeed();
  EXPECT_EQ(NextBatch(8).rows, 4u) << "it is handed out in the end";
}

}  // namespace
}  // namespace tfos::feed
