// Arrays that become no chunk: nulls, types that a chunk cannot hold, and damage of any kind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "columns/arrow/arrow_columns.h"
#include "columns/arrow/test_arrays.h"

namespace tfos::columns {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// `count` elements, of which `null` is one.
std::vector<bool> AllValidBut(std::size_t count, std::size_t null) {
  std::vector<bool> valid(count, true);
  valid[null] = false;
  return valid;
}

TEST(ArrowColumnsTest, NullsAreRefusedByColumnAndRow) {
  const std::vector<std::int32_t> values(40);
  for (const std::size_t null : {0U, 7U, 8U, 31U, 39U}) {
    ForeignPtr column = Numbers("i", values);
    column->Valid(AllValidBut(40, null));
    const ForeignPtr batch = Batch(std::move(column));
    const Result<Chunk> chunk = Convert(*batch, {0, 40, 1000});
    ASSERT_FALSE(chunk.ok());
    EXPECT_EQ(chunk.status().kind(), ErrorKind::kBadInput);
    EXPECT_EQ(
        chunk.status().ToString(),
        "column x has a null in row " + std::to_string(1000 + null) + "; fill or drop it first");
    // Rows that are not asked for may be null.
    EXPECT_TRUE(Convert(*batch, {null + 1, 40}).ok());
    EXPECT_TRUE(Convert(*batch, {0, null}).ok());
  }
}

TEST(ArrowColumnsTest, NullsAreFoundInEveryLayout) {
  const std::string in_row_2 = "column x has a null in row 2; fill or drop it first";
  const std::string inside_row_2 =
      "column x has a null in row 2, inside an array, where na.fill and na.drop do not look. Leave "
      "it out with filter(x, v -> v is not null), or replace it with transform(x, v -> coalesce(v, "
      "VALUE))";
  const auto with_null = [](ForeignPtr column) {
    column->Valid(AllValidBut(4, 2));
    return column;
  };
  EXPECT_EQ(ErrorOf(with_null(Bools({true, true, true, true}))), in_row_2);
  EXPECT_EQ(ErrorOf(with_null(Strings<std::int32_t>("u", {"a", "b", "", "d"}))), in_row_2);
  EXPECT_EQ(ErrorOf(with_null(FixedLists(4, 1, Numbers<float>("f", {1, 2, 3, 4})))), in_row_2);
  EXPECT_EQ(ErrorOf(with_null(
                Vectors({1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0, 0}, {}, {0, 0, 0, 0, 0}, {}))),
            in_row_2);
  const auto list_child = [&] { return with_null(Numbers<float>("f", {1, 2, 3, 4})); };
  EXPECT_EQ(ErrorOf(Lists<std::int32_t>("+l", {0, 1, 1, 3, 4}, list_child())), inside_row_2);
  EXPECT_EQ(ErrorOf(FixedLists(4, 1, list_child())), inside_row_2);
  const auto nested = [&](std::vector<std::int32_t> outer) {
    return Lists("+l", outer, with_null(FixedLists(4, 1, Numbers<float>("f", {1, 2, 3, 4}))));
  };
  EXPECT_EQ(ErrorOf(nested({0, 1, 2, 3, 4})), inside_row_2);
  EXPECT_EQ(ErrorOf(nested({0, 2})), "no error") << "the null is behind the last list";
  const auto texts = [&] { return with_null(Strings<std::int32_t>("u", {"a", "b", "", "d"})); };
  EXPECT_EQ(ErrorOf(Lists<std::int32_t>("+l", {0, 1, 1, 3, 4}, texts())), inside_row_2);
  EXPECT_EQ(ErrorOf(with_null(FixedLists(4, 1, Strings<std::int32_t>("z", {"", "", "", ""})))),
            in_row_2);
}

TEST(ArrowColumnsTest, RefusesTypesByColumnAndType) {
  for (const char* format : {"n", "tdm", "tss:", "tsn:UTC", "ttn", "tDu", "tiM", "vu", "vz", "+r",
                             "+us:0", "+vl", "w:", "w:-1", "+w:x", "", "?"}) {
    EXPECT_THAT(ErrorOf(Numbers<double>(format, {1})),
                AllOf(HasSubstr("column x of the Arrow type '" + std::string(format) + "'"),
                      HasSubstr("a chunk cannot hold")))
        << format;
  }
  EXPECT_THAT(
      ErrorOf(Lists<std::int32_t>("+l", {0, 1}, Numbers<double>("vu", {1}))),
      AllOf(HasSubstr("column x of the Arrow type '+l'"), HasSubstr("a chunk cannot hold 'vu'")));
  ForeignPtr map = New("+m", 1);
  map->Add(std::vector<std::int32_t>{0, 0}).Child(New("+s", 0));
  EXPECT_THAT(ErrorOf(std::move(map)), HasSubstr("a chunk cannot hold '+m'"));
  ForeignPtr deep = Numbers<double>("g", {1});
  for (int depth = 0; depth < 40; ++depth) deep = FixedLists(1, 1, std::move(deep));
  EXPECT_THAT(ErrorOf(std::move(deep)), HasSubstr("nested too deeply"));
}

/// What comes of a list column after `damage` has been done to it.
std::string ErrorAfter(const std::function<void(Foreign& column)>& damage) {
  const ForeignPtr batch =
      Batch(Lists<std::int32_t>("+l", {0, 1, 3}, Numbers<double>("g", {1, 2, 3})));
  batch->Finish();
  damage(batch->child(0));
  const auto columns = ArrowColumns::Open(batch->schema, batch->array, Decimals::kRefuse);
  if (!columns.ok()) return columns.status().ToString();
  const Status planned = (*columns)->Plan(0, 2, 0);
  return planned.ok() ? "no error" : planned.ToString();
}

TEST(ArrowColumnsTest, RefusesArraysThatAreNotBuiltAsTheirTypeWants) {
  EXPECT_EQ(ErrorAfter([](Foreign&) {}), "no error");
  const std::vector<std::function<void(Foreign&)>> damages = {
      [](Foreign& column) { column.array.length = -1; },
      [](Foreign& column) { column.array.length = 1; },
      [](Foreign& column) { column.array.length = std::numeric_limits<std::int64_t>::max(); },
      [](Foreign& column) { column.array.offset = -1; },
      [](Foreign& column) { column.array.offset = std::numeric_limits<std::int64_t>::max(); },
      [](Foreign& column) { column.array.null_count = 1; },
      [](Foreign& column) { column.array.null_count = -2; },
      [](Foreign& column) { column.array.n_buffers = 1; },
      [](Foreign& column) { column.array.n_buffers = 3; },
      [](Foreign& column) { column.array.buffers = nullptr; },
      [](Foreign& column) { column.array.buffers[1] = nullptr; },
      [](Foreign& column) { column.array.n_children = 0; },
      [](Foreign& column) { column.schema.n_children = 0; },
      [](Foreign& column) { column.schema.n_children = column.array.n_children = 0; },
      [](Foreign& column) { column.array.children = nullptr; },
      [](Foreign& column) { column.array.children[0] = nullptr; },
      [](Foreign& column) { column.schema.children[0] = nullptr; },
      [](Foreign& column) { column.schema.children[0]->format = nullptr; },
      [](Foreign& column) { column.array.children[0]->length = 2; },
      [](Foreign& column) { column.array.children[0]->buffers[1] = nullptr; },
      [](Foreign& column) { column.array.children[0]->n_buffers = 1; },
      [](Foreign& column) { column.array.dictionary = &column.array; },
      [](Foreign& column) { column.schema.dictionary = &column.schema; },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    EXPECT_THAT(ErrorAfter(damages[i]), HasSubstr("column x of the Arrow type '+l'")) << i;
  }
}

TEST(ArrowColumnsTest, RefusesBatchesThatAreNone) {
  const ForeignPtr batch = Batch(Numbers<double>("g", {1}));
  batch->Finish();
  batch->array.release = nullptr;
  EXPECT_THAT(ArrowColumns::Open(batch->schema, batch->array, Decimals::kRefuse).status().message(),
              HasSubstr("released"));
  const ForeignPtr number = Numbers<double>("g", {1});
  EXPECT_THAT(Convert(*number).status().message(), HasSubstr("not a struct"));
  const ForeignPtr holes = Batch(Numbers<double>("g", {1, 2}));
  holes->Valid({true, false});
  EXPECT_THAT(Convert(*holes).status().message(), HasSubstr("whole row"));
}

TEST(ArrowColumnsTest, RefusesOffsetsThatFallOrLeave) {
  const auto lists = [](std::vector<std::int32_t> offsets) {
    return ErrorOf(Lists("+l", offsets, Numbers<double>("g", {1, 2, 3})));
  };
  EXPECT_THAT(lists({-1, 2, 3}), HasSubstr("offset 0 is negative"));
  EXPECT_THAT(lists({0, 2, 1}), HasSubstr("offset 2 falls"));
  EXPECT_THAT(lists({0, 2, 4}), HasSubstr("an offset is 4 where 3 elements are"));
  EXPECT_THAT(lists({2, 3, std::numeric_limits<std::int32_t>::min()}), HasSubstr("falls"));
  ForeignPtr text = Strings<std::int64_t>("U", {"ab", "cd"});
  const std::int64_t wild = std::numeric_limits<std::int64_t>::max();
  std::memcpy(text->buffer(1).data() + 16, &wild, sizeof wild);
  EXPECT_THAT(ErrorOf(std::move(text)), HasSubstr("an offset is 9223372036854775807"));
  EXPECT_THAT(ErrorOf(Lists<std::int32_t>("+l", {0, 2}, Strings<std::int32_t>("u", {"a"}))),
              HasSubstr("an offset is 2 where 1 elements are"));
  EXPECT_THAT(ErrorOf(FixedLists(3, 2, Numbers<double>("g", {1, 2, 3, 4, 5}))),
              HasSubstr("5 elements are too few for lists of 2"));
}

/// Every column whose offsets, sizes or indices decide what is read.
ForeignPtr Fragile() {
  ForeignPtr batch = New("+s", 4);
  ForeignPtr vectors = Vectors({1, 0, 1, 0}, {0, 3, 0, 3}, {0, 0, 2, 2, 3}, {0, 2, 1},
                               {0, 3, 5, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  vectors->child(1).Valid({false, true, false, true});
  vectors->child(2).Valid({false, true, false, true});
  batch->Child(
      Lists<std::int32_t>("+l", {0, 1, 1, 4, 6}, Numbers<std::int32_t>("i", {1, 2, 3, 4, 5, 6})));
  batch->Child(Lists<std::int64_t>(
      "+L", {0, 2, 4, 6, 8},
      Lists<std::int32_t>("+l", {0, 1, 2, 3, 4, 5, 6, 7, 8},
                          Bools({true, false, true, false, true, false, true, false}))));
  batch->Child(std::move(vectors));
  return batch;
}

/// All buffers below `array`.
void CollectBuffers(Foreign& array, std::vector<std::vector<std::uint8_t>*>& buffers) {
  for (std::size_t i = 0; i < array.buffers(); ++i) {
    if (!array.buffer(i).empty()) buffers.push_back(&array.buffer(i));
  }
  for (std::int64_t i = 0; i < array.array.n_children; ++i) {
    CollectBuffers(array.child(static_cast<std::size_t>(i)), buffers);
  }
}

TEST(ArrowColumnsTest, SurvivesEveryPairOfFlippedBits) {
  constexpr std::uint64_t kMostBytes = 1 << 20;  // A flipped size may ask for gigabytes.
  const ForeignPtr batch = Fragile();
  batch->Finish();
  std::vector<std::vector<std::uint8_t>*> buffers;
  CollectBuffers(*batch, buffers);
  std::vector<std::pair<std::uint8_t*, int>> bits;
  for (auto* buffer : buffers) {
    for (std::uint8_t& byte : *buffer) {
      for (int bit = 0; bit < 8; ++bit) bits.emplace_back(&byte, bit);
    }
  }
  const auto flip = [&](std::size_t index) {
    *bits[index].first = static_cast<std::uint8_t>(*bits[index].first ^ (1 << bits[index].second));
  };
  std::size_t refused = 0;
  std::size_t converted = 0;
  const auto check = [&] {
    const auto columns = ArrowColumns::Open(batch->schema, batch->array, Decimals::kRefuse);
    ASSERT_TRUE(columns.ok()) << columns.status().ToString();
    if (!(*columns)->Plan(0, 4, 0).ok()) {
      ++refused;
      return;
    }
    if ((*columns)->bytes() > kMostBytes) return;
    AlignedBuffer bytes((*columns)->bytes());
    ASSERT_TRUE((*columns)->Fill(bytes.bytes()).ok());
    const auto view = chunk::ChunkView::Parse(bytes.bytes());
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    ++converted;
  };
  std::mt19937_64 random(7);
  check();
  ASSERT_EQ(converted, 1U);
  for (std::size_t bit = 0; bit < bits.size(); ++bit) {
    flip(bit);
    check();
    for (int second = 0; second < 16; ++second) {
      const std::size_t other = random() % bits.size();
      flip(other);
      check();
      flip(other);
    }
    flip(bit);
  }
  EXPECT_GT(refused, bits.size());
  EXPECT_GT(converted, bits.size());
}

}  // namespace
}  // namespace tfos::columns
