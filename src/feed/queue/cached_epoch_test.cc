#include "feed/queue/cached_epoch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string TextOf(const CachedEpoch& epoch, std::size_t index) {
  const Result<CachedEpoch::Chunk> chunk = epoch.Read(index);
  if (!chunk.ok()) return chunk.status().ToString();
  const std::span<const std::byte> bytes = chunk->memory->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class CachedEpochTest : public ::testing::Test {
 protected:
  CachedEpochTest()
      : directory_(std::filesystem::path(::testing::TempDir()) /
                   ("tfos-cache-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(directory_);
  }
  ~CachedEpochTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<CachedEpoch> Make(CachePlace place) const {
    return std::make_unique<CachedEpoch>(place, account_, directory_.string());
  }

  const std::filesystem::path directory_;
  const std::shared_ptr<CacheAccount> account_ = std::make_shared<CacheAccount>(10);
};

TEST_F(CachedEpochTest, KeepsWhatFitsInMemoryAndTheRestInAFile) {
  auto epoch = Make(CachePlace::kMemory);
  ASSERT_TRUE(epoch->Add(Bytes("sixsix"), 1).ok());
  ASSERT_TRUE(epoch->Add(Bytes("again six"), 2).ok());
  ASSERT_TRUE(epoch->Add(Bytes("four"), 3).ok());
  EXPECT_EQ(account_->memory_bytes(), 10u);
  EXPECT_EQ(account_->file_bytes(), 9u);
  ASSERT_EQ(epoch->chunks(), 3u);
  EXPECT_EQ(TextOf(*epoch, 0), "sixsix");
  EXPECT_EQ(TextOf(*epoch, 1), "again six");
  EXPECT_EQ(TextOf(*epoch, 2), "four");
  EXPECT_EQ(epoch->Read(2)->items, 3u);
}

TEST_F(CachedEpochTest, ChunksStartWhereColumnsCanBeUsedInPlace) {
  for (const CachePlace place : {CachePlace::kMemory, CachePlace::kDisk}) {
    auto epoch = Make(place);
    ASSERT_TRUE(epoch->Add(Bytes("x"), 1).ok());
    const auto chunk = epoch->Read(0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(chunk->memory->bytes().data()) % kBufferAlignment,
              0u);
  }
}

TEST_F(CachedEpochTest, GivesEverythingBackAndLeavesNoFile) {
  {
    auto epoch = Make(CachePlace::kDisk);
    ASSERT_TRUE(epoch->Add(Bytes("text"), 1).ok());
    EXPECT_EQ(account_->memory_bytes(), 0u);
    EXPECT_EQ(account_->file_bytes(), 4u);
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    auto in_memory = Make(CachePlace::kMemory);
    ASSERT_TRUE(in_memory->Add(Bytes("text"), 1).ok());
  }
  EXPECT_EQ(account_->memory_bytes(), 0u);
  EXPECT_EQ(account_->file_bytes(), 0u);
}

TEST_F(CachedEpochTest, AChunkOutlivesItsEpoch) {
  auto epoch = Make(CachePlace::kMemory);
  ASSERT_TRUE(epoch->Add(Bytes("text"), 1).ok());
  const CachedEpoch::Chunk chunk = *epoch->Read(0);
  epoch.reset();
  EXPECT_EQ(std::to_integer<char>(chunk.memory->bytes()[0]), 't');
}

TEST_F(CachedEpochTest, SaysWhichDirectoryCannotBeWrittenTo) {
  CachedEpoch epoch(CachePlace::kDisk, account_, "/nonexistent/cache");
  const Status status = epoch.Add(Bytes("text"), 1);
  EXPECT_THAT(status.ToString(), HasSubstr("/nonexistent/cache"));
  EXPECT_EQ(epoch.chunks(), 0u);
}

}  // namespace
}  // namespace tfos::feed
