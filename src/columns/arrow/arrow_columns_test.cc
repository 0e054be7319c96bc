#include "columns/arrow/arrow_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "columns/arrow/test_arrays.h"

namespace tfos::columns {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename T>
void ExpectCopied(const std::string& format, chunk::DType dtype) {
  SCOPED_TRACE(format);
  const std::vector<T> values = {static_cast<T>(0), std::numeric_limits<T>::lowest(),
                                 std::numeric_limits<T>::max(), static_cast<T>(7)};
  const Chunk chunk = ConvertColumn(Numbers(format, values));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyScalar, dtype, {});
  for (std::size_t row = 0; row < values.size(); ++row) {
    EXPECT_EQ(chunk.Value<T>(row), std::vector<T>{values[row]});
  }
}

TEST(ArrowColumnsTest, CopiesNumbersOfEveryType) {
  ExpectCopied<std::int8_t>("c", chunk::DType::kInt8);
  ExpectCopied<std::int16_t>("s", chunk::DType::kInt16);
  ExpectCopied<std::int32_t>("i", chunk::DType::kInt32);
  ExpectCopied<std::int64_t>("l", chunk::DType::kInt64);
  ExpectCopied<std::uint8_t>("C", chunk::DType::kUint8);
  ExpectCopied<std::uint16_t>("S", chunk::DType::kUint16);
  ExpectCopied<std::uint32_t>("I", chunk::DType::kUint32);
  ExpectCopied<std::uint64_t>("L", chunk::DType::kUint64);
  ExpectCopied<std::uint16_t>("e", chunk::DType::kFloat16);  // Its bits.
  ExpectCopied<float>("f", chunk::DType::kFloat32);
  ExpectCopied<double>("g", chunk::DType::kFloat64);
  ExpectCopied<std::int32_t>("tdD", chunk::DType::kInt32);
  ExpectCopied<std::int64_t>("tsu:", chunk::DType::kInt64);
  ExpectCopied<std::int64_t>("tsu:Europe/Berlin", chunk::DType::kInt64);
}

TEST(ArrowColumnsTest, UnpacksBools) {
  const std::vector<bool> values = {true,  false, false, true, true, true,
                                    false, true,  false, true, true};
  const Chunk chunk = ConvertColumn(Bools(values));
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyScalar, chunk::DType::kBool, {});
  for (std::size_t row = 0; row < values.size(); ++row) {
    EXPECT_EQ(chunk.Value<std::uint8_t>(row)[0], values[row] ? 1 : 0);
  }
}

TEST(ArrowColumnsTest, CopiesTextAndBinary) {
  const std::vector<std::string> values = {"", "a", "gr\u00fc\u00df", std::string("\0x", 2), ""};
  const auto check = [&](ForeignPtr column, chunk::RowNodeKind kind) {
    const Chunk chunk = ConvertColumn(std::move(column));
    ExpectShape(chunk, kind, chunk::DType::kNone, {});
    for (std::size_t row = 0; row < values.size(); ++row) EXPECT_EQ(chunk.Text(row), values[row]);
  };
  check(Strings<std::int32_t>("u", values), chunk::RowNodeKind::kText);
  check(Strings<std::int64_t>("U", values), chunk::RowNodeKind::kText);
  check(Strings<std::int32_t>("z", values), chunk::RowNodeKind::kBytes);
  check(Strings<std::int64_t>("Z", values), chunk::RowNodeKind::kBytes);
}

TEST(ArrowColumnsTest, HoldsTextWithoutAnyCharacter) {
  const Chunk chunk = ConvertColumn(Strings<std::int32_t>("u", {"", "", ""}));
  EXPECT_EQ(chunk.Text(2), "");
}

TEST(ArrowColumnsTest, CopiesBinaryOfFixedSize) {
  ForeignPtr column = New("w:3", 2);
  column->Add(std::vector<char>{'a', 'b', 'c', 'd', 'e', 'f'});
  const Chunk chunk = ConvertColumn(std::move(column));
  ExpectShape(chunk, chunk::RowNodeKind::kBytes, chunk::DType::kNone, {});
  EXPECT_EQ(chunk.Text(0), "abc");
  EXPECT_EQ(chunk.Text(1), "def");
}

using Int128 = __int128;

ForeignPtr DecimalColumn(std::string format, const std::vector<Int128>& values) {
  return Numbers(std::move(format), values);
}

TEST(ArrowColumnsTest, DecimalsBecomeTheNearestFloat64WhenAsked) {
  const Int128 large = Int128{123456789012345678} * 1000000000;  // 27 digits
  const Chunk chunk =
      ConvertColumn(DecimalColumn("d:38,10", {Int128{0}, Int128{15000000000}, Int128{-1}, large,
                                              -large, Int128{9007199254740993}}),
                    Decimals::kFloat64);
  ExpectShape(chunk, chunk::RowNodeKind::kNumpyScalar, chunk::DType::kFloat64, {});
  const double expected[] = {
      0, 1.5, -1e-10, 123456789012345678e-1, -123456789012345678e-1, 900719.9254740993};
  for (std::size_t row = 0; row < std::size(expected); ++row) {
    EXPECT_EQ(chunk.Value<double>(row)[0], expected[row]) << row;
  }
  const Chunk tiny =
      ConvertColumn(DecimalColumn("d:38,38,128", {Int128{0}, Int128{-125}}), Decimals::kFloat64);
  EXPECT_EQ(tiny.Value<double>(0)[0], 0.0);
  EXPECT_EQ(tiny.Value<double>(1)[0], -125e-38);
  const Chunk listed = ConvertColumn(
      Lists<std::int32_t>("+l", {0, 2}, DecimalColumn("d:5,1", {Int128{5}, Int128{10}})),
      Decimals::kFloat64);
  EXPECT_EQ(listed.Value<double>(0), (std::vector<double>{0.5, 1.0}));
}

TEST(ArrowColumnsTest, DecimalsAreRefusedUnlessAskedFor) {
  EXPECT_THAT(ErrorOf(DecimalColumn("d:10,2", {Int128{1}})),
              AllOf(HasSubstr("column x of the Arrow type 'd:10,2'"),
                    HasSubstr("cast it or pass decimals=\"float64\"")));
  for (const char* format : {"d:10,2,256", "d:10,-2", "d:10,99", "d:10", "d:"}) {
    const ForeignPtr batch = Batch(DecimalColumn(format, {Int128{1}}));
    EXPECT_FALSE(Convert(*batch, Decimals::kFloat64).ok()) << format;
  }
}

TEST(ArrowColumnsTest, HonoursTheOffsetsOfSlices) {
  // 24 elements each; of the batch's rows [3, 19) of columns that start at element 2, the chunk
  // gets [4, 13): elements 9 to 17.
  std::vector<std::int32_t> numbers, offsets = {0};
  std::vector<bool> bools;
  std::vector<std::string> texts;
  std::vector<double> flat;
  for (std::int32_t i = 0; i < 24; ++i) {
    numbers.push_back(i);
    bools.push_back(i % 3 == 0);
    texts.push_back(std::string(static_cast<std::size_t>(i % 4), static_cast<char>('a' + i)));
    for (std::int32_t k = 0; k < 1 + i % 2; ++k) flat.push_back(i + 0.25 * k);
    offsets.push_back(static_cast<std::int32_t>(flat.size()));
  }
  std::vector<std::int16_t> pairs;
  for (std::int16_t i = 0; i < 50; ++i) pairs.push_back(i);
  // The lists point into a child that starts at its third element.
  std::vector<double> shifted_flat = {-1, -2, -3};
  shifted_flat.insert(shifted_flat.end(), flat.begin(), flat.end());
  ForeignPtr list_child = Numbers("g", shifted_flat);
  list_child->Slice(3, static_cast<std::int64_t>(flat.size()));
  ForeignPtr pair_child = Numbers("s", pairs);
  pair_child->Slice(2, 48);

  ForeignPtr batch = New("+s", 24);
  batch->Child(Numbers("i", numbers)).Child(Bools(bools));
  batch->Child(Strings<std::int32_t>("u", texts));
  batch->Child(Lists("+l", offsets, std::move(list_child)));
  batch->Child(FixedLists(24, 2, std::move(pair_child)));
  for (std::size_t i = 0; i < 5; ++i) batch->child(i).Slice(2, 22);
  batch->Slice(3, 16);

  const Result<Chunk> chunk = Convert(*batch, {4, 13});
  ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
  ASSERT_EQ(chunk->view.rows(), 9);
  for (std::size_t row = 0; row < 9; ++row) {
    const auto element = static_cast<std::int32_t>(9 + row);
    EXPECT_EQ(chunk->Value<std::int32_t>(row, 0)[0], element);
    EXPECT_EQ(chunk->Value<std::uint8_t>(row, 1)[0], element % 3 == 0 ? 1 : 0);
    EXPECT_EQ(chunk->Text(row, 2), texts[static_cast<std::size_t>(element)]);
    std::vector<double> list = {static_cast<double>(element)};
    if (element % 2 == 1) list.push_back(element + 0.25);
    EXPECT_EQ(chunk->Value<double>(row, 3), list);
    const auto first = static_cast<std::int16_t>(2 + 2 * element);
    EXPECT_EQ(chunk->Value<std::int16_t>(row, 4),
              (std::vector<std::int16_t>{first, static_cast<std::int16_t>(first + 1)}));
  }
}

TEST(ArrowColumnsTest, ABatchOrASliceWithoutRowsIsAChunkWithoutColumns) {
  const ForeignPtr empty = Batch(Numbers<double>("g", {}));
  const ForeignPtr some = Batch(Numbers<double>("g", {1, 2}));
  for (const auto& [batch, at] : {std::pair(empty.get(), 0U), std::pair(some.get(), 1U)}) {
    const Result<Chunk> chunk = Convert(*batch, {at, at});
    ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
    EXPECT_EQ(chunk->view.rows(), 0);
    EXPECT_TRUE(chunk->view.columns().empty());
    EXPECT_EQ(chunk->root.kind, chunk::RowNodeKind::kNone);
  }
}

TEST(ArrowColumnsTest, RefusesRowsThatTheBatchHasNot) {
  const ForeignPtr batch = Batch(Numbers<double>("g", {1, 2}));
  EXPECT_EQ(Convert(*batch, {0, 3}).status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(Convert(*batch, {2, 1}).status().kind(), ErrorKind::kBadInput);
}

TEST(ArrowColumnsTest, KeepsToTheLimitsOfAChunk) {
  const ForeignPtr wide = New("+s", 1);
  for (std::size_t i = 0; i <= chunk::kMaxChunkColumns; ++i)
    wide->Child(Numbers<std::int8_t>("c", {1}));
  EXPECT_EQ(Convert(*wide).status().kind(), ErrorKind::kBadInput);
}

/// What InPlace says of all rows from `begin` on.
std::optional<std::vector<chunk::ColumnView>> InPlaceFrom(ArrowColumns& columns,
                                                          std::size_t begin) {
  EXPECT_TRUE(columns.Plan(begin, columns.rows(), 0).ok());
  return columns.InPlace();
}

TEST(ArrowColumns, SaysWhatLiesInTheBatchAsInAChunk) {
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0F);
  const ForeignPtr batch = Batch(FixedLists(16, 4, Numbers("f", values)));
  batch->Finish();
  auto columns = ArrowColumns::Open(batch->schema, batch->array, Decimals::kRefuse);
  ASSERT_TRUE(columns.ok());
  int aligned = 0;
  for (std::size_t begin = 0; begin < 4; ++begin) {  // A row has 16 bytes, as memory is aligned.
    const auto views = InPlaceFrom(**columns, begin);
    if (!views) continue;
    ++aligned;
    AlignedBuffer bytes((*columns)->bytes());
    ASSERT_TRUE((*columns)->Fill(bytes.bytes()).ok());
    const auto chunk = chunk::ChunkView::Parse(bytes.bytes());
    ASSERT_TRUE(chunk.ok());
    const chunk::ColumnView& filled = chunk->columns()[0];
    const chunk::ColumnView& found = views->at(0);
    EXPECT_EQ(found.encoding, filled.encoding);
    EXPECT_EQ(found.dtype, filled.dtype);
    EXPECT_EQ(found.shape, filled.shape);
    EXPECT_EQ(found.name, filled.name);
    EXPECT_EQ(found.values, filled.values);
    EXPECT_EQ(found.value_elements, filled.value_elements);
    EXPECT_EQ(found.value_bytes, filled.value_bytes);
    EXPECT_EQ(found.elements, filled.elements);
    EXPECT_TRUE(std::ranges::equal(found.data, filled.data));
  }
  EXPECT_EQ(aligned, 1);
}

TEST(ArrowColumns, CopiesWhatAChunkHasInAnotherForm) {
  const auto some = [] { return std::vector<float>(64); };
  for (const auto& make : std::vector<std::function<ForeignPtr()>>{
           [] { return Bools(std::vector<bool>(64)); },
           [] { return Strings<std::int32_t>("u", std::vector<std::string>(64, "text")); },
           [&] {
             return Lists<std::int32_t>("+l", {0, 4, 8, 12, 17}, Numbers("f", some()));
           }}) {
    const ForeignPtr batch = Batch(make());
    batch->Finish();
    auto columns = ArrowColumns::Open(batch->schema, batch->array, Decimals::kRefuse);
    ASSERT_TRUE(columns.ok());
    for (std::size_t begin = 0; begin < 3; ++begin) {
      EXPECT_FALSE(InPlaceFrom(**columns, begin));
    }
  }
}

}  // namespace
}  // namespace tfos::columns
