#include "columns/batch_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

// How batches are put together is tested beside the reader, src/feed/read/batch_values_test.cc.

namespace tfos::columns {
namespace {

using testing::ElementsAre;

TEST(BatchTypeTest, ColumnsAreKnownByTheNamesOfTheirTypes) {
  for (const std::string_view encoding : {"dense", "ragged"}) {
    const BatchColumnType type = BatchTypeFrom("x", encoding, "float32", {2, 3}).value();
    EXPECT_EQ(type.name, "x");
    EXPECT_EQ(type.dtype, chunk::DType::kFloat32);
    EXPECT_THAT(type.shape, ElementsAre(2, 3));
    EXPECT_EQ(BatchEncodingName(type.encoding), encoding);
    EXPECT_EQ(BatchDTypeName(type), "float32");
  }
  EXPECT_EQ(BatchTypeFrom("x", "dense", "complex128", {}).value().dtype, chunk::DType::kComplex128);
}

TEST(BatchTypeTest, StringsHaveNoDType) {
  for (const std::string_view encoding : {"strings", "ragged strings"}) {
    const BatchColumnType type = BatchTypeFrom("x", encoding, "", {}).value();
    EXPECT_EQ(type.dtype, chunk::DType::kNone);
    EXPECT_EQ(BatchEncodingName(type.encoding), encoding);
    EXPECT_EQ(BatchDTypeName(type), "");
  }
}

TEST(BatchTypeTest, WhatAFeedDoesNotHaveIsRefused) {
  const Status status = BatchTypeFrom("x", "dense", "datetime64[s]", {}).status();
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(status.message(), "column 'x' cannot be dense datetime64[s]: a feed has none such");
  EXPECT_FALSE(BatchTypeFrom("x", "ragged", "none", {}).ok());
  EXPECT_FALSE(BatchTypeFrom("x", "dense", "", {}).ok());
  EXPECT_FALSE(BatchTypeFrom("x", "sparse", "float32", {}).ok());
}

}  // namespace
}  // namespace tfos::columns
