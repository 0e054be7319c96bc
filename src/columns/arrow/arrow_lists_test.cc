// Lists of numbers, of strings and of lists, and vectors of Spark ML.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "columns/arrow/test_arrays.h"

namespace tfos::columns {
namespace {

using testing::HasSubstr;

/// The strings of a row, one by one.
std::vector<std::string> StringsOf(const Chunk& chunk, std::size_t row, std::size_t index = 0) {
  const chunk::ColumnView& column = chunk.column(index);
  const chunk::ElementRange range = column.ElementsOf(row);
  std::vector<std::string> strings;
  for (std::uint64_t i = range.begin; i < range.end; ++i) {
    const std::span<const std::byte> bytes = column.BytesOf({i, i + 1});
    strings.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return strings;
}

using StringVector = std::vector<std::string>;

TEST(ArrowColumnsTest, ListsOfStringsOfOneLengthHaveAShape) {
  const StringVector values = {"a", "", "gr\u00fc\u00df", "d", "ee", "f"};
  const auto check = [&](ForeignPtr column, chunk::ColumnEncoding encoding) {
    const Chunk chunk = ConvertColumn(std::move(column));
    ExpectShape(chunk, chunk::RowNodeKind::kStringList, chunk::DType::kNone, {3});
    EXPECT_EQ(chunk.column().encoding, encoding);
    EXPECT_EQ(StringsOf(chunk, 0), (StringVector{"a", "", "gr\u00fc\u00df"}));
    EXPECT_EQ(StringsOf(chunk, 1), (StringVector{"d", "ee", "f"}));
  };
  check(Lists<std::int32_t>("+l", {0, 3, 6}, Strings<std::int32_t>("u", values)),
        chunk::ColumnEncoding::kText);
  check(Lists<std::int64_t>("+L", {0, 3, 6}, Strings<std::int64_t>("Z", values)),
        chunk::ColumnEncoding::kBytes);
  check(FixedLists(2, 3, Strings<std::int32_t>("z", values)), chunk::ColumnEncoding::kBytes);
}

TEST(ArrowColumnsTest, ListsOfStringsOfDifferentLengthsAreRagged) {
  const Chunk text = ConvertColumn(
      Lists<std::int32_t>("+l", {0, 2, 2, 3}, Strings<std::int32_t>("u", {"ab", "", "c"})));
  ExpectShape(text, chunk::RowNodeKind::kStringList, chunk::DType::kNone, {});
  EXPECT_EQ(text.column().encoding, chunk::ColumnEncoding::kRaggedText);
  EXPECT_EQ(StringsOf(text, 0), (StringVector{"ab", ""}));
  EXPECT_TRUE(StringsOf(text, 1).empty());
  EXPECT_EQ(StringsOf(text, 2), StringVector{"c"});

  ForeignPtr pairs = New("w:2", 3);
  pairs->Add(std::vector<char>{'a', 'b', 'c', 'd', 'e', 'f'});
  const Chunk fixed = ConvertColumn(Lists<std::int32_t>("+l", {0, 1, 3}, std::move(pairs)));
  EXPECT_EQ(fixed.column().encoding, chunk::ColumnEncoding::kRaggedBytes);
  EXPECT_EQ(StringsOf(fixed, 1), (StringVector{"cd", "ef"}));
}

TEST(ArrowColumnsTest, ListsOfStringsWithoutElementsOrInsideLists) {
  const Chunk empty =
      ConvertColumn(Lists<std::int32_t>("+l", {0, 0, 0}, Strings<std::int32_t>("u", {})));
  ExpectShape(empty, chunk::RowNodeKind::kStringList, chunk::DType::kNone, {0});
  EXPECT_TRUE(StringsOf(empty, 1).empty());
  // Arrow lets an array of no strings go without offsets.
  ForeignPtr nothing = New("u", 0);
  nothing->Add(std::vector<std::int32_t>{}).Add(std::vector<char>{});
  const Chunk bare = ConvertColumn(Lists<std::int32_t>("+l", {0, 0}, std::move(nothing)));
  EXPECT_TRUE(StringsOf(bare, 0).empty());
  const Chunk nested = ConvertColumn(Lists<std::int32_t>(
      "+l", {0, 2}, FixedLists(2, 2, Strings<std::int32_t>("u", {"a", "b", "c", "d"}))));
  ExpectShape(nested, chunk::RowNodeKind::kStringList, chunk::DType::kNone, {2, 2});
  EXPECT_EQ(StringsOf(nested, 0), (StringVector{"a", "b", "c", "d"}));
}

TEST(ArrowColumnsTest, HonoursTheOffsetsOfSlicedListsOfStrings) {
  ForeignPtr texts = Strings<std::int32_t>("u", {"-", "a", "bb", "ccc", "dddd", "+"});
  texts->Slice(1, 4);
  ForeignPtr lists = Lists<std::int32_t>("+l", {0, 0, 1, 1, 3, 4}, std::move(texts));
  lists->Slice(1, 4);
  const ForeignPtr batch = Batch(std::move(lists));
  const Result<Chunk> chunk = Convert(*batch, {1, 4});
  ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
  EXPECT_TRUE(StringsOf(*chunk, 0).empty());
  EXPECT_EQ(StringsOf(*chunk, 1), (StringVector{"bb", "ccc"}));
  EXPECT_EQ(StringsOf(*chunk, 2), StringVector{"dddd"});
}

TEST(ArrowColumnsTest, ListsOfOneLengthAreATensor) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto check = [&](ForeignPtr column) {
    const Chunk chunk = ConvertColumn(std::move(column));
    ExpectShape(chunk, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat32, {3});
    EXPECT_EQ(chunk.Value<float>(0), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(chunk.Value<float>(1), (std::vector<float>{4, 5, 6}));
  };
  check(Lists<std::int32_t>("+l", {0, 3, 6}, Numbers("f", values)));
  check(Lists<std::int64_t>("+L", {0, 3, 6}, Numbers("f", values)));
  check(FixedLists(2, 3, Numbers("f", values)));
}

TEST(ArrowColumnsTest, ListsOfDifferentLengthsAreRagged) {
  const Chunk chunk = ConvertColumn(
      Lists<std::int32_t>("+l", {0, 2, 2, 5}, Numbers<std::int16_t>("s", {1, 2, 3, 4, 5})));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyRagged, chunk::DType::kInt16, {});
  EXPECT_EQ(chunk.Value<std::int16_t>(0), (std::vector<std::int16_t>{1, 2}));
  EXPECT_TRUE(chunk.Value<std::int16_t>(1).empty());
  EXPECT_EQ(chunk.Value<std::int16_t>(2), (std::vector<std::int16_t>{3, 4, 5}));
}

TEST(ArrowColumnsTest, ListsOfBoolsAreUnpacked) {
  const Chunk chunk =
      ConvertColumn(Lists<std::int32_t>("+l", {0, 1, 3}, Bools({true, false, true})));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyRagged, chunk::DType::kBool, {});
  EXPECT_EQ(chunk.Value<std::uint8_t>(1), (std::vector<std::uint8_t>{0, 1}));
}

TEST(ArrowColumnsTest, EmptyLists) {
  const Chunk flat = ConvertColumn(Lists<std::int32_t>("+l", {0, 0, 0}, Numbers<double>("g", {})));
  ExpectShape(flat, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat64, {0});
  const Chunk nested = ConvertColumn(
      Lists<std::int32_t>("+l", {0, 0}, Lists<std::int32_t>("+l", {0}, Numbers<double>("g", {}))));
  ExpectShape(nested, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat64, {0, 0});
  const Chunk fixed = ConvertColumn(FixedLists(3, 0, Numbers<double>("g", {})));
  ExpectShape(fixed, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat64, {0});
}

TEST(ArrowColumnsTest, NestedListsOfEqualLengthsAreATensorOfHigherRank) {
  const Chunk chunk = ConvertColumn(Lists<std::int32_t>(
      "+l", {0, 2, 4},
      FixedLists(4, 1,
                 Lists<std::int64_t>("+L", {0, 2, 4, 6, 8},
                                     Numbers<std::uint8_t>("C", {1, 2, 3, 4, 5, 6, 7, 8})))));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyArray, chunk::DType::kUint8, {2, 1, 2});
  EXPECT_EQ(chunk.Value<std::uint8_t>(1), (std::vector<std::uint8_t>{5, 6, 7, 8}));
}

TEST(ArrowColumnsTest, NestedListsOfDifferentLengthsAreRefused) {
  const auto nested = [](std::vector<std::int32_t> outer, std::vector<std::int32_t> inner) {
    return Lists("+l", outer, Lists("+l", inner, Numbers<double>("g", {1, 2, 3, 4})));
  };
  EXPECT_THAT(ErrorOf(nested({0, 1, 3}, {0, 2, 3, 4})), HasSubstr("pad them to one length"));
  EXPECT_THAT(ErrorOf(nested({0, 2}, {0, 1, 4})), HasSubstr("column x of the Arrow type '+l'"));
  EXPECT_EQ(ErrorOf(nested({0, 1, 2}, {0, 2, 4})), "no error");
}

TEST(ArrowColumnsTest, VectorsOfSparkAreDense) {
  // [1, 2, 3], {size 3: 5 at 2}, [], of which the last does not belong to the chunk.
  ForeignPtr vectors = Vectors({1, 0, 1}, {0, 3, 0}, {0, 0, 1, 1}, {2}, {0, 3, 4, 4}, {1, 2, 3, 5});
  vectors->child(1).Valid({false, true, false});
  vectors->child(2).Valid({false, true, false});
  const ForeignPtr batch = Batch(std::move(vectors));
  const Result<Chunk> chunk = Convert(*batch, {0, 2});
  ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
  ExpectShape(*chunk, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat64, {3});
  EXPECT_EQ(chunk->Value<double>(0), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(chunk->Value<double>(1), (std::vector<double>{0, 0, 5}));
  const Result<Chunk> all = Convert(*batch);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  ExpectShape(*all, chunk::RowNodeKind::kNumpyRagged, chunk::DType::kFloat64, {});
  EXPECT_EQ(all->Value<double>(1), (std::vector<double>{0, 0, 5}));
  EXPECT_TRUE(all->Value<double>(2).empty());
}

TEST(ArrowColumnsTest, RefusesWhatIsNoVector) {
  const auto one = [](std::int8_t type, std::int32_t size, std::vector<std::int32_t> indices,
                      std::vector<double> values) {
    return Vectors({type}, {size}, {0, static_cast<std::int32_t>(indices.size())}, indices,
                   {0, static_cast<std::int32_t>(values.size())}, values);
  };
  EXPECT_EQ(ErrorOf(one(0, 3, {2}, {1.0})), "no error");
  EXPECT_THAT(ErrorOf(one(0, 3, {3}, {1.0})), HasSubstr("the vector in row 0 is not one"));
  EXPECT_THAT(ErrorOf(one(0, 3, {-1}, {1.0})), HasSubstr("the vector in row 0 is not one"));
  EXPECT_THAT(ErrorOf(one(0, 3, {0, 1}, {1.0})), HasSubstr("the vector in row 0 is not one"));
  EXPECT_THAT(ErrorOf(one(0, -3, {}, {})), HasSubstr("the vector in row 0 is not one"));
  EXPECT_THAT(ErrorOf(one(2, 3, {0}, {1.0})), HasSubstr("the vector in row 0 is not one"));
  ForeignPtr null_value = one(1, 0, {}, {1.0, 2.0});
  null_value->child(3).child(0).Valid({true, false});
  EXPECT_THAT(ErrorOf(std::move(null_value)), HasSubstr("holds a null"));
  ForeignPtr other = one(1, 0, {}, {1.0});
  other->child(3).Named("elements");
  EXPECT_THAT(ErrorOf(std::move(other)), HasSubstr("a chunk cannot hold '+s'"));
}

TEST(ArrowColumnsTest, HonoursTheOffsetsOfSlicedVectors) {
  ForeignPtr vectors = Vectors({1, 1, 0, 1}, {0, 0, 2, 0}, {0, 0, 0, 1, 1}, {7, 1, 0},
                               {0, 2, 4, 5, 7}, {-1, 1, 2, 3, 4, 5, 6, 7});
  vectors->child(2).child(0).Slice(1, 2);
  vectors->child(3).child(0).Slice(1, 7);
  vectors->Slice(1, 3);
  const Chunk chunk = ConvertColumn(std::move(vectors));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyArray, chunk::DType::kFloat64, {2});
  EXPECT_EQ(chunk.Value<double>(0), (std::vector<double>{3, 4}));
  EXPECT_EQ(chunk.Value<double>(1), (std::vector<double>{0, 5}));
  EXPECT_EQ(chunk.Value<double>(2), (std::vector<double>{6, 7}));
}

}  // namespace
}  // namespace tfos::columns
