#include "parameter_server/model/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "base/memory/memory_of_host.h"

namespace tfos::parameter_server {
namespace {

std::unique_ptr<Store> Make(std::uint64_t elements, const Rule& rule = {}) {
  auto store = Store::Create({{DType::kFloat32, elements}}, rule);
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return std::move(store).value();
}

std::span<const std::byte> Bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> ValuesOf(const Store& store) {
  const auto bytes = store.Read(0, 0, store.bytes());
  EXPECT_TRUE(bytes.ok());
  std::vector<float> values(store.bytes() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

TEST(StoreTest, PushesAreCombinedRangeByRange) {
  const auto store = Make(3 * kBlockBytes / 4);  // Three blocks.
  const std::vector<float> start(store->bytes() / 4, 1);
  ASSERT_TRUE(store->Write(0, 0, Bytes(start)).ok());
  store->StartAt(7);
  std::vector<float> pushed(store->bytes() / 4);
  std::iota(pushed.begin(), pushed.end(), 0.0F);
  const std::uint64_t step = store->BeginPush();
  const std::uint64_t cut = kBlockBytes + 640;
  ASSERT_TRUE(store->Push(step, 0, Bytes(pushed).first(cut)).ok());
  ASSERT_TRUE(store->Push(step, cut, Bytes(pushed).subspan(cut)).ok());
  EXPECT_EQ(store->version(), 7U);
  EXPECT_EQ(store->FinishPush(), 8U);
  const auto values = ValuesOf(*store);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], pushed[i] + 1) << i;
}

TEST(StoreTest, SlotsAreKeptBesideTheValues) {
  const auto store = Make(16, {.combiner = Combiner::kSgd, .learning_rate = 1, .momentum = 0.5});
  store->StartAt(0);
  const std::vector<float> gradient(16, 2);
  ASSERT_TRUE(store->Push(store->BeginPush(), 0, Bytes(gradient)).ok());
  ASSERT_TRUE(store->Push(store->BeginPush(), 0, Bytes(gradient)).ok());
  EXPECT_EQ(ValuesOf(*store)[5], -2 - 3);
  const auto slot = store->Read(1, 0, store->bytes());
  ASSERT_TRUE(slot.ok());
  float velocity = 0;
  std::memcpy(&velocity, slot->data(), sizeof(velocity));
  EXPECT_EQ(velocity, -3);
  EXPECT_EQ(store->Read(2, 0, 64).status().ToString(),
            "part 2 was asked for, and this combiner or optimizer has parts 0 to 1");
  EXPECT_FALSE(store->Write(2, 0, Bytes(gradient)).ok());
}

// Covers: memory exhausted / parameter servers
TEST(StoreTest, AShareThatTheHostHasNoMemoryForIsRefused) {
  // With its two slots it is three times as large.
  const Rule adam{.combiner = Combiner::kAdam, .learning_rate = 1};
  const std::uint64_t elements = MemoryOfHost() / 2 / sizeof(float);
  const auto store = Store::Create({{DType::kFloat32, elements}}, adam);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().kind(), ErrorKind::kNoResources);
  EXPECT_NE(store.status().message().find("use more parameter servers"), std::string::npos);
}

TEST(StoreTest, RangesOutsideAreRefused) {
  const auto store = Make(32);
  const std::vector<float> data(16);
  EXPECT_TRUE(store->Push(1, 64, Bytes(data)).ok());
  EXPECT_FALSE(store->Push(1, 128, Bytes(data)).ok());
  EXPECT_FALSE(store->Push(1, 4, Bytes(data)).ok());
  EXPECT_FALSE(store->Push(1, ~std::uint64_t{63}, Bytes(data)).ok());
  EXPECT_FALSE(store->Read(0, 64, 128).ok());
}

/// Lets `change` change all values 200 times in another thread, each time to equal ones, which a
/// reader of the shared memory must see block by block. The last ones are 200.
void ReadDuring(const std::function<void(Store& store, int time)>& change) {
  const auto store = Make(2 * kBlockBytes / 4);
  store->StartAt(0);
  auto descriptor = store->memory().OpenForReading();
  ASSERT_TRUE(descriptor.ok());
  auto view = StoreView::Map(std::move(*descriptor), store->bytes());
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  std::atomic<bool> over = false;
  std::thread changer([&] {
    for (int time = 1; time <= 200; ++time) change(*store, time);
    over = true;
  });
  std::vector<float> seen(store->bytes() / 4);
  const std::size_t block = kBlockBytes / 4;
  bool whole = true;
  do {
    EXPECT_TRUE(view->Copy(std::as_writable_bytes(std::span(seen)), [] { return Status(); }).ok());
    for (const std::size_t first : {std::size_t{0}, block}) {
      for (std::size_t i = 0; i < block; ++i) whole = whole && seen[first + i] == seen[first];
    }
  } while (whole && !over);
  changer.join();
  EXPECT_TRUE(whole);
  ASSERT_TRUE(view->Copy(std::as_writable_bytes(std::span(seen)), [] { return Status(); }).ok());
  EXPECT_EQ(seen[0], 200);
  EXPECT_EQ(view->version(), store->version());
}

TEST(StoreTest, ReadersOfTheSharedMemorySeeNoBlockInTheMiddleOfAPush) {
  ReadDuring([](Store& store, int /*time*/) {
    const std::vector<float> one(store.bytes() / 4, 1);
    EXPECT_TRUE(store.Push(store.BeginPush(), 0, Bytes(one)).ok());
    store.FinishPush();
  });
}

TEST(StoreTest, NorInTheMiddleOfAWrite) {
  ReadDuring([](Store& store, int time) {
    const std::vector<float> values(store.bytes() / 4, static_cast<float>(time));
    EXPECT_TRUE(store.Write(0, 0, Bytes(values)).ok());
  });
}

TEST(StoreTest, AReaderOfABlockThatChangesForEverAsksInBetween) {
  const auto store = Make(kBlockBytes / 4 + 16);
  auto descriptor = store->memory().OpenForReading();
  ASSERT_TRUE(descriptor.ok());
  auto view = StoreView::Map(std::move(*descriptor), store->bytes());
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  // The counters of the two blocks are the words from the eighth on.
  auto* const words = reinterpret_cast<std::uint64_t*>(store->memory().bytes().data());
  std::atomic_ref(words[8 + 1]).store(1);
  std::vector<std::byte> seen(store->bytes());
  int asked = 0;
  const auto check = [&]() -> Status {
    return ++asked < 3 ? Status() : Status(ErrorKind::kReconnect, "the server is gone");
  };
  EXPECT_EQ(view->Copy(seen, check).ToString(), "the server is gone");
  EXPECT_EQ(asked, 3);
}

TEST(StoreTest, WhatClientsGetCannotBeWritten) {
  const auto store = Make(16);
  auto descriptor = store->memory().OpenForReading();
  ASSERT_TRUE(descriptor.ok());
  EXPECT_FALSE(SharedMemory::Map(UniqueFd(::fcntl(descriptor->get(), F_DUPFD_CLOEXEC, 0)),
                                 StoreMemoryBytes(store->bytes()), /*writable=*/true)
                   .ok());
  EXPECT_FALSE(StoreView::Map(std::move(*descriptor), store->bytes() + kAlignment).ok());
}

}  // namespace
}  // namespace tfos::parameter_server
