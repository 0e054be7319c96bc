#include "base/memory/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "testing/no_memory.h"

namespace tfos {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

TEST(BufferPoolTest, UsesABufferAgain) {
  BufferPool pool;
  const std::byte* first = nullptr;
  {
    const PooledBuffer buffer = pool.Allocate(kLarge);
    ASSERT_EQ(buffer.bytes.size(), kLarge);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes.data()) % 64, 0U);
    std::memset(buffer.bytes.data(), 1, buffer.bytes.size());
    first = buffer.bytes.data();
    EXPECT_EQ(pool.kept_bytes(), 0U);
  }
  EXPECT_GE(pool.kept_bytes(), kLarge);
  const PooledBuffer larger = pool.Allocate(kLarge + kLarge / 16);
  EXPECT_EQ(larger.bytes.data(), first);
  EXPECT_EQ(pool.kept_bytes(), 0U);
  EXPECT_NE(pool.Allocate(kLarge).bytes.data(), first);
}

TEST(BufferPoolTest, BuffersOutliveIt) {
  std::optional<BufferPool> pool(std::in_place);
  PooledBuffer buffer = pool->Allocate(kLarge);
  pool.reset();
  std::memset(buffer.bytes.data(), 1, buffer.bytes.size());
}

TEST(BufferPoolTest, KeepsNoMoreThanItSays) {
  BufferPool pool;
  std::vector<PooledBuffer> buffers;
  for (std::size_t bytes = 0; bytes < 2 * BufferPool::kMostKeptBytes; bytes += 8 * kLarge) {
    buffers.push_back(pool.Allocate(8 * kLarge));
  }
  buffers.clear();
  EXPECT_LE(pool.kept_bytes(), BufferPool::kMostKeptBytes);
  EXPECT_GT(pool.kept_bytes(), BufferPool::kMostKeptBytes / 2);
}

#ifndef TFOS_SANITIZED
TEST(BufferPoolTest, CountsWhatItKeepsWhereThereIsNoMemoryToDropTheOldest) {
  BufferPool pool;
  // With what is allocated beyond that, an eighth of what is kept at most.
  constexpr std::size_t kEighth = BufferPool::kMostKeptBytes / 9;
  std::vector<PooledBuffer> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(pool.Allocate(kEighth));
  // The ninth to come back drives out the first, and so will the tenth.
  while (buffers.size() > 1) buffers.pop_back();
  const std::size_t kept = pool.kept_bytes();
  EXPECT_GT(kept, 7 * kEighth);
  tfos::testing::refuses_memory = tfos::testing::RefuseAll;
  buffers.clear();
  tfos::testing::refuses_memory = nullptr;
  EXPECT_EQ(pool.kept_bytes(), kept);
  for (int i = 0; i < 10; ++i) buffers.push_back(pool.Allocate(kEighth));
  EXPECT_EQ(pool.kept_bytes(), 0U);
  buffers.clear();
  EXPECT_EQ(pool.kept_bytes(), kept);
}
#endif

TEST(BufferPoolTest, OneLargerThanAllDoesNotDriveOutTheOthers) {
  BufferPool pool;
  pool.Allocate(kLarge);
  const std::size_t kept = pool.kept_bytes();
  pool.Allocate(2 * BufferPool::kMostKeptBytes);
  EXPECT_EQ(pool.kept_bytes(), kept);
}

TEST(BufferPoolTest, DoesNotSpendALargeBufferOnLittle) {
  BufferPool pool;
  pool.Allocate(16 * kLarge);
  const std::size_t kept = pool.kept_bytes();
  const PooledBuffer little = pool.Allocate(kLarge);
  EXPECT_EQ(pool.kept_bytes(), kept);
}

TEST(BufferPoolTest, SmallBuffersAreTheHeaps) {
  BufferPool pool;
  EXPECT_TRUE(pool.Allocate(0).bytes.empty());
  EXPECT_EQ(pool.Allocate(100).bytes.size(), 100U);
  EXPECT_EQ(pool.kept_bytes(), 0U);
}

TEST(BufferPoolTest, BuffersComeBackFromAnyThread) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool, i] {
      for (int k = 0; k < 200; ++k) {
        const PooledBuffer buffer = pool.Allocate(kLarge);
        buffer.bytes[0] = static_cast<std::byte>(i);
        std::thread([held = buffer.memory] {}).join();
        EXPECT_EQ(buffer.bytes[0], static_cast<std::byte>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.kept_bytes(), 8 * kLarge);
}

}  // namespace
}  // namespace tfos
