#include "feed/read/steps/pad_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;

TEST(PadBatchTest, FillsUpWithZerosAndEmptyValues) {
  const std::vector<std::int64_t> numbers = {7};
  const std::vector<std::int64_t> list = {1, 2, 3};
  const std::vector<std::int64_t> boundaries = {0, 3};
  Batch batch{.rows = 1, .columns = {}};
  batch.columns.push_back({.data = {.bytes = std::as_bytes(std::span(numbers))}, .boundaries = {}});
  batch.columns.push_back({.data = {.bytes = std::as_bytes(std::span(list))},
                           .boundaries = {.bytes = std::as_bytes(std::span(boundaries))}});
  batch.columns.push_back({.data = {}, .boundaries = {}, .strings = {"abc"}});
  batch.columns.push_back({.data = {}, .boundaries = {}, .strings = {"d", "e"}});
  batch.columns.push_back({.data = {},
                           .boundaries = {.bytes = std::as_bytes(std::span(boundaries))},
                           .strings = {"f", "g", "h"}});
  const auto padded = PadBatch(
      std::move(batch),
      {.rows = 3,
       .columns = {{.name = "x", .dtype = chunk::DType::kInt64},
                   {.name = "y",
                    .encoding = columns::BatchEncoding::kRagged,
                    .dtype = chunk::DType::kInt64},
                   {.name = "z", .encoding = columns::BatchEncoding::kStrings},
                   {.name = "pair", .encoding = columns::BatchEncoding::kStrings, .shape = {2}},
                   {.name = "list", .encoding = columns::BatchEncoding::kRaggedStrings}}});
  ASSERT_TRUE(padded.ok());
  EXPECT_EQ(padded->rows, 1u);
  const auto numbers_of = [](const columns::HeldBytes& held) {
    std::vector<std::int64_t> found(held.bytes.size() / 8);
    std::memcpy(found.data(), held.bytes.data(), held.bytes.size());
    return found;
  };
  EXPECT_THAT(numbers_of(padded->columns[0].data), ElementsAre(7, 0, 0));
  EXPECT_THAT(numbers_of(padded->columns[1].boundaries), ElementsAre(0, 3, 3, 3));
  EXPECT_THAT(numbers_of(padded->columns[1].data), ElementsAre(1, 2, 3));
  EXPECT_THAT(padded->columns[2].strings, ElementsAre("abc", "", ""));
  EXPECT_THAT(padded->columns[3].strings, ElementsAre("d", "e", "", "", "", ""));
  EXPECT_THAT(padded->columns[4].strings, ElementsAre("f", "g", "h"));
  EXPECT_THAT(numbers_of(padded->columns[4].boundaries), ElementsAre(0, 3, 3, 3));
}

}  // namespace
}  // namespace tfos::feed
