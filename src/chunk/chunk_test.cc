#include "chunk/chunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "chunk/row_structure.h"

namespace tfos::chunk {
namespace {

using testing::HasSubstr;

RowNode Leaf(RowNodeKind kind) {
  RowNode node;
  node.kind = kind;
  return node;
}

/// Sets the boundaries of a column's strings, which have these lengths.
void SetStrings(ChunkBuilder& builder, std::size_t column,
                const std::vector<std::string>& strings) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    std::memcpy(builder.data(column).data() + end, strings[i].data(), strings[i].size());
    end += strings[i].size();
    builder.SetStringBoundary(column, i + 1, end);
  }
}

/// A chunk of (float64[2], text, ragged int64, text[2], ragged bytes) tuples.
class Sample {
 public:
  static constexpr std::size_t kRows = 3;

  Sample() : bytes_(Build()) {}

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static std::vector<std::byte> Build() {
    RowNode root = Leaf(RowNodeKind::kTuple);
    root.children = {Leaf(RowNodeKind::kNumberList), Leaf(RowNodeKind::kText),
                     Leaf(RowNodeKind::kNumberTuple), Leaf(RowNodeKind::kStringList),
                     Leaf(RowNodeKind::kStringList)};
    std::string structure;
    AppendRowStructure(root, structure);

    ChunkBuilder builder(ChunkKind::kColumnar, kRows, structure);
    ColumnSpec tensor;
    tensor.dtype = DType::kFloat64;
    tensor.shape = {2};
    tensor.values = kRows;
    tensor.name = "image";
    ColumnSpec text;
    text.encoding = ColumnEncoding::kText;
    text.values = kRows;
    text.data_bytes = 6;
    ColumnSpec ragged;
    ragged.encoding = ColumnEncoding::kRagged;
    ragged.dtype = DType::kInt64;
    ragged.values = kRows;
    ragged.data_bytes = 3 * sizeof(std::int64_t);
    builder.AddColumn(tensor);
    builder.AddColumn(text);
    builder.AddColumn(ragged);
    ColumnSpec pairs;
    pairs.encoding = ColumnEncoding::kText;
    pairs.shape = {2};
    pairs.values = kRows;
    pairs.data_bytes = 5;
    builder.AddColumn(pairs);
    ColumnSpec lists;
    lists.encoding = ColumnEncoding::kRaggedBytes;
    lists.values = kRows;
    lists.strings = 3;
    lists.data_bytes = 4;
    builder.AddColumn(lists);
    std::vector<std::byte> bytes(builder.Plan().value());
    EXPECT_TRUE(builder.Begin(bytes).ok());

    const double numbers[] = {1, 2, 3, 4, 5, 6};
    std::memcpy(builder.data(0).data(), numbers, sizeof numbers);
    std::memcpy(builder.data(1).data(), "abcdef", 6);
    builder.SetStringBoundary(1, 1, 0);
    builder.SetStringBoundary(1, 2, 2);
    builder.SetStringBoundary(1, 3, 6);
    const std::int64_t integers[] = {7, 8, 9};
    std::memcpy(builder.data(2).data(), integers, sizeof integers);
    builder.SetBoundary(2, 1, 3);
    builder.SetBoundary(2, 2, 3);
    builder.SetBoundary(2, 3, 3);
    SetStrings(builder, 3, {"a", "", "bc", "d", "", "e"});
    SetStrings(builder, 4, {"vw", "", "xy"});
    builder.SetBoundary(4, 1, 1);
    builder.SetBoundary(4, 2, 1);
    builder.SetBoundary(4, 3, 3);
    return bytes;
  }

  std::vector<std::byte> bytes_;
};

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The strings of a value one by one.
std::vector<std::string> Strings(const ColumnView& column, std::uint64_t value) {
  std::vector<std::string> strings;
  const ElementRange range = column.ElementsOf(value);
  for (std::uint64_t i = range.begin; i < range.end; ++i) {
    strings.push_back(Text(column.BytesOf({i, i + 1})));
  }
  return strings;
}

template <typename T>
std::vector<T> Numbers(std::span<const std::byte> bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Reads everything a chunk offers; under AddressSanitizer any step outside ends the test.
std::size_t Touch(const ChunkView& view) {
  std::size_t sum = 0;
  for (const ColumnView& column : view.columns()) {
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(column.values, 1000); ++i) {
      for (std::byte byte : column.Value(i)) sum += static_cast<std::size_t>(byte);
      const ElementRange range = column.ElementsOf(i);
      for (std::uint64_t k = range.begin; k < std::min(range.end, range.begin + 100); ++k) {
        sum += column.BytesOf({k, k + 1}).size();
      }
    }
    sum += column.name.size();
  }
  return sum;
}

TEST(ChunkTest, GivesBackWhatWasWritten) {
  const Sample sample;
  const auto view = ChunkView::Parse(sample.bytes());
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->kind(), ChunkKind::kColumnar);
  EXPECT_EQ(view->rows(), 3);
  ASSERT_EQ(view->columns().size(), 5U);

  const ColumnView& tensor = view->columns()[0];
  EXPECT_EQ(tensor.name, "image");
  EXPECT_EQ(tensor.shape, std::vector<std::uint64_t>{2});
  EXPECT_EQ(Numbers<double>(tensor.Value(1)), (std::vector<double>{3, 4}));
  const ColumnView& text = view->columns()[1];
  EXPECT_EQ(Text(text.Value(0)), "");
  EXPECT_EQ(Text(text.Value(1)), "ab");
  EXPECT_EQ(Text(text.Value(2)), "cdef");
  const ColumnView& ragged = view->columns()[2];
  EXPECT_EQ(Numbers<std::int64_t>(ragged.Value(0)), (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_TRUE(ragged.Value(2).empty());
  EXPECT_EQ(Strings(view->columns()[3], 0), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(Strings(view->columns()[3], 1), (std::vector<std::string>{"bc", "d"}));
  EXPECT_EQ(Text(view->columns()[3].Value(1)), "bcd");
  EXPECT_EQ(Strings(view->columns()[4], 0), std::vector<std::string>{"vw"});
  EXPECT_TRUE(Strings(view->columns()[4], 1).empty());
  EXPECT_EQ(Strings(view->columns()[4], 2), (std::vector<std::string>{"", "xy"}));
}

TEST(ChunkTest, HoldsStringsInShapesWithoutElements) {
  ChunkBuilder builder(ChunkKind::kColumnar, 2);
  builder.AddColumn({.encoding = ColumnEncoding::kText,
                     .shape = {~std::uint64_t{0}, 0},
                     .values = 2,
                     .name = {}});
  std::vector<std::byte> bytes(builder.Plan().value());
  ASSERT_TRUE(builder.Begin(bytes).ok());
  const auto view = ChunkView::Parse(bytes);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->columns()[0].elements, 0U);
  EXPECT_TRUE(Strings(view->columns()[0], 1).empty());
}

TEST(ChunkTest, RefusesOneLevelOfBoundariesWhereTwoAreNeeded) {
  const std::vector<std::byte> good = Sample().bytes();
  constexpr std::size_t kLists = 64 + 4 * 64;  // The last entry of the column table.
  const auto error_with = [&](std::size_t at, std::uint64_t value) {
    std::vector<std::byte> bytes = good;
    Store(value, bytes.data() + kLists + at);
    return ChunkView::Parse(bytes).status().ToString();
  };
  EXPECT_THAT(error_with(48, 2), HasSubstr("the last boundary is not the end"));
  EXPECT_THAT(error_with(48, std::uint64_t{1} << 60), HasSubstr("not the end of the data"));
  EXPECT_THAT(error_with(56, 8), HasSubstr("lie outside"));
  EXPECT_THAT(error_with(56, 0), HasSubstr("boundary"));
  std::vector<std::byte> bytes = good;
  bytes[kLists] = static_cast<std::byte>(ColumnEncoding::kBytes);
  EXPECT_THAT(ChunkView::Parse(bytes).status().ToString(), HasSubstr("a reserved byte is set"));
  bytes[kLists] = std::byte{7};
  EXPECT_THAT(ChunkView::Parse(bytes).status().ToString(), HasSubstr("encoding 7 does not exist"));
}

TEST(ChunkTest, DataIsAligned) {
  const Sample sample;
  const auto view = ChunkView::Parse(sample.bytes());
  ASSERT_TRUE(view.ok());
  for (const ColumnView& column : view->columns()) {
    EXPECT_EQ((column.data.data() - sample.bytes().data()) % kChunkAlignment, 0U);
  }
  EXPECT_EQ(sample.bytes().size() % kChunkAlignment, 0U);
}

TEST(ChunkTest, WritesEveryByteOfItsRoom) {
  // What lay in the room before must not travel along.
  ChunkBuilder builder(ChunkKind::kPickledBatches, kUnknownRows);
  ColumnSpec spec;
  spec.encoding = ColumnEncoding::kOpaque;
  spec.values = 1;
  spec.data_bytes = 5;
  builder.AddColumn(spec);
  const std::uint64_t size = builder.Plan().value();
  std::vector<std::byte> clean(size), dirty(size, std::byte{0xAA});
  for (auto* bytes : {&clean, &dirty}) {
    ASSERT_TRUE(builder.Begin(*bytes).ok());
    std::memcpy(builder.data(0).data(), "12345", 5);
    builder.SetStringBoundary(0, 1, 5);
  }
  EXPECT_EQ(clean, dirty);
}

TEST(ChunkTest, IgnoresBytesAfterTheChunk) {
  const Sample sample;
  std::vector<std::byte> longer = sample.bytes();
  longer.resize(longer.size() + 100);
  const auto view = ChunkView::Parse(longer);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->bytes(), sample.bytes().size());
}

TEST(ChunkTest, RefusesAnotherVersionByNameOfBoth) {
  std::vector<std::byte> bytes = Sample().bytes();
  bytes[4] = std::byte{2};
  const auto view = ChunkView::Parse(bytes);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.status().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(view.status().message(), HasSubstr("version 2; this build reads version 1"));
}

TEST(ChunkTest, RefusesEveryTruncation) {
  const Sample sample;
  for (std::size_t length = 0; length < sample.bytes().size(); ++length) {
    const std::vector<std::byte> cut(sample.bytes().begin(),
                                     sample.bytes().begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(ChunkView::Parse(cut).ok()) << length;
  }
}

TEST(ChunkTest, SurvivesEveryPairOfFlippedBits) {
  const Sample sample;
  // Header, column table, structure and boundaries; the data itself cannot do harm.
  const std::size_t bits = sample.bytes().size() * 8;
  std::mt19937_64 random(7);
  std::vector<std::byte> bytes = sample.bytes();
  const auto flip = [&](std::size_t bit) { bytes[bit / 8] ^= std::byte{1} << (bit % 8); };
  std::size_t refused = 0;
  const auto check = [&] {
    const auto view = ChunkView::Parse(bytes);
    if (!view.ok()) {
      ++refused;
      return;
    }
    Touch(*view);
    if (!ParseRowStructure(*view).ok()) ++refused;
  };
  for (std::size_t bit = 0; bit < bits; ++bit) {
    flip(bit);
    check();
    for (int second = 0; second < 8; ++second) {
      const std::size_t other = random() % bits;
      flip(other);
      check();
      flip(other);
    }
    flip(bit);
  }
  EXPECT_GT(refused, bits / 4);
}

TEST(ChunkTest, ValuesStayInsideEvenIfBoundariesChangeAfterParsing) {
  std::vector<std::byte> bytes = Sample().bytes();
  const auto view = ChunkView::Parse(bytes);
  ASSERT_TRUE(view.ok());
  const auto check = [&](const ColumnView& column, const std::byte* boundaries) {
    std::byte* const begin = bytes.data() + (boundaries - bytes.data());
    for (std::uint64_t wild : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
      for (std::size_t index = 0; index < 4; ++index) {
        std::byte* const boundary = begin + index * sizeof(std::uint64_t);
        const auto before = Load<std::uint64_t>(boundary);
        Store(wild, boundary);
        for (std::size_t row = 0; row < Sample::kRows; ++row) {
          EXPECT_LE(column.ElementsOf(row).end, column.elements);
          EXPECT_LE(column.Value(row).size(), column.data.size());
        }
        Touch(*view);
        Store(before, boundary);
      }
    }
  };
  const std::vector<ColumnView>& columns = view->columns();
  check(columns[1], columns[1].string_boundaries);
  check(columns[4], columns[4].boundaries);
  check(columns[4], columns[4].string_boundaries);
}

TEST(ChunkTest, RefusesShapesWhoseSizeOverflows) {
  ChunkBuilder builder(ChunkKind::kColumnar, 1);
  ColumnSpec spec;
  spec.dtype = DType::kFloat64;
  spec.shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  spec.values = 1;
  builder.AddColumn(spec);
  EXPECT_EQ(builder.Plan().status().kind(), ErrorKind::kBadInput);
}

TEST(ChunkTest, HoldsTensorsWithoutElements) {
  ChunkBuilder builder(ChunkKind::kColumnar, 2);
  ColumnSpec spec;
  spec.dtype = DType::kFloat32;
  spec.shape = {~std::uint64_t{0}, 0};
  spec.values = 2;
  builder.AddColumn(spec);
  std::vector<std::byte> bytes(builder.Plan().value());
  ASSERT_TRUE(builder.Begin(bytes).ok());
  const auto view = ChunkView::Parse(bytes);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_TRUE(view->columns()[0].Value(1).empty());
}

TEST(ChunkTest, KeepsToTheLimits) {
  ChunkBuilder wide(ChunkKind::kColumnar, 1);
  for (std::size_t i = 0; i <= kMaxChunkColumns; ++i) {
    ColumnSpec spec;
    spec.dtype = DType::kInt8;
    spec.values = 1;
    wide.AddColumn(spec);
  }
  EXPECT_EQ(wide.Plan().status().kind(), ErrorKind::kBadInput);

  ChunkBuilder deep(ChunkKind::kColumnar, 1);
  ColumnSpec spec;
  spec.dtype = DType::kInt8;
  spec.shape.assign(kMaxTensorRank + 1, 1);
  spec.values = 1;
  deep.AddColumn(spec);
  EXPECT_EQ(deep.Plan().status().kind(), ErrorKind::kBadInput);

  ChunkBuilder structured(ChunkKind::kColumnar, 1, std::string(kMaxRowStructureBytes + 1, 'x'));
  EXPECT_EQ(structured.Plan().status().kind(), ErrorKind::kBadInput);
}

TEST(ChunkTest, RefusesTooLittleRoom) {
  ChunkBuilder builder(ChunkKind::kColumnar, 0);
  std::vector<std::byte> bytes(builder.Plan().value() - 1);
  EXPECT_EQ(builder.Begin(bytes).kind(), ErrorKind::kBug);
}

}  // namespace
}  // namespace tfos::chunk
