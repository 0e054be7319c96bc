#include "tensorflow/ops/registry.h"

#include <gtest/gtest.h>

#include "tensorflow/ops/batch_source_table.h"

namespace tfos::tensorflow {
namespace {

tfos_batch_source SourceCounting(int& references) {
  return {.version = TFOS_BATCH_SOURCE_VERSION,
          .context = &references,
          .retain = [](void* context) { ++*static_cast<int*>(context); },
          .release = [](void* context) { --*static_cast<int*>(context); },
          .begin = nullptr,
          .await = nullptr,
          .next = nullptr,
          .release_batch = nullptr,
          .open = nullptr};
}

TEST(RegistryTest, ASourceLivesUntilItIsRemovedAndNobodyUsesIt) {
  int references = 0;
  Registry<tfos_batch_source> registry;
  const std::int64_t handle = registry.Add(SourceCounting(references), TFOS_BATCH_SOURCE_VERSION);
  EXPECT_NE(handle, 0);
  EXPECT_EQ(references, 1);
  {
    const auto found = registry.Find(handle);
    ASSERT_TRUE(found);
    EXPECT_EQ((*found)->context, &references);
    registry.Remove(handle);
    EXPECT_EQ(references, 1) << "an op is still in it";
  }
  EXPECT_EQ(references, 0);
  EXPECT_FALSE(registry.Find(handle));
  registry.Remove(handle);
  EXPECT_EQ(references, 0);
}

TEST(RegistryTest, HandlesAreNotReused) {
  int references = 0;
  Registry<tfos_batch_source> registry;
  const std::int64_t first = registry.Add(SourceCounting(references), TFOS_BATCH_SOURCE_VERSION);
  registry.Remove(first);
  EXPECT_NE(registry.Add(SourceCounting(references), TFOS_BATCH_SOURCE_VERSION), first);
}

TEST(RegistryTest, AnotherVersionIsRefused) {
  int references = 0;
  Registry<tfos_batch_source> registry;
  EXPECT_EQ(registry.Add(SourceCounting(references), TFOS_BATCH_SOURCE_VERSION + 1), 0);
  EXPECT_EQ(references, 0);
}

}  // namespace
}  // namespace tfos::tensorflow
