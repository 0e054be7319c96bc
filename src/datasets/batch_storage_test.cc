#include "datasets/batch_storage.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace tfos::datasets {
namespace {

/// Memory that says when nobody holds it any more.
struct Watched {
  explicit Watched(bool& gone) : gone_(gone) {}
  ~Watched() { gone_ = true; }
  bool& gone_;
};

TEST(BatchStorageTest, NumbersAreNotCopiedAndGoWithTheBatch) {
  bool gone = false;
  auto memory = std::make_shared<Watched>(gone);
  const std::byte bytes[8] = {};
  tfos_batch batch{};
  auto storage = std::make_unique<BatchStorage>();
  storage->AddNumbers(5, {2, 1}, bytes, std::move(memory));
  storage->ShowIn(batch);
  BatchStorage::Give(std::move(storage), batch);
  ASSERT_EQ(batch.tensors, 1);
  EXPECT_EQ(batch.code, tensorflow::kTfOk);
  EXPECT_EQ(batch.tensor[0].data, bytes);
  EXPECT_EQ(batch.tensor[0].rank, 2);
  EXPECT_EQ(batch.tensor[0].dims[0], 2);
  EXPECT_FALSE(gone);
  BatchStorage::Release(&batch);
  EXPECT_TRUE(gone);
}

TEST(BatchStorageTest, MemoryThatATensorsUserTookOverOutlivesTheBatch) {
  bool gone = false;
  const std::byte bytes[4] = {};
  tfos_batch batch{};
  auto storage = std::make_unique<BatchStorage>();
  storage->AddNumbers(4, {1}, bytes, std::make_shared<Watched>(gone));
  storage->ShowIn(batch);
  BatchStorage::Give(std::move(storage), batch);
  void* const owner = std::exchange(batch.tensor[0].owner, nullptr);
  void (*release)(void*) = batch.tensor[0].release;
  BatchStorage::Release(&batch);
  EXPECT_FALSE(gone);
  release(owner);
  EXPECT_TRUE(gone);
}

TEST(BatchStorageTest, StringsKeepTheirPlacesWhileColumnsAreAdded) {
  tfos_batch batch{};
  auto storage = std::make_unique<BatchStorage>();
  for (int column = 0; column < 20; ++column) {
    storage->AddStrings({1}, {{.data = "abc", .bytes = 3}}, nullptr);
  }
  storage->ShowIn(batch);
  BatchStorage::Give(std::move(storage), batch);
  for (int column = 0; column < 20; ++column) {
    const tfos_string& text = batch.tensor[column].strings[0];
    EXPECT_EQ(std::string(text.data, text.bytes), "abc");
  }
  BatchStorage::Release(&batch);
}

TEST(BatchStorageTest, AnExceptionIsAFailureThatSaysWhatItWas) {
  tfos_batch batch{};
  batch.tensors = 3;  // As far as it had come.
  BatchStorage::Fail(batch, ErrorKind::kBug, "bad variant access");
  EXPECT_EQ(batch.code, tensorflow::kTfInternal);
  EXPECT_STREQ(batch.message, "making a batch failed: bad variant access");
  EXPECT_EQ(batch.tensors, 0);
  BatchStorage::Release(&batch);

  BatchStorage::Fail(batch, ErrorKind::kNoResources, "no memory");
  EXPECT_EQ(batch.code, tensorflow::kTfResourceExhausted);
  BatchStorage::Release(&batch);
}

}  // namespace
}  // namespace tfos::datasets
