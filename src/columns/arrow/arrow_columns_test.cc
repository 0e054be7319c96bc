#include "columns/arrow/arrow_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"

namespace tfos::columns {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void ReleaseSchema(ArrowSchema* schema) { schema->release = nullptr; }
void ReleaseArray(ArrowArray* array) { array->release = nullptr; }

/// An array as another library would hand it over. Every buffer is an allocation of its own and of
/// exactly the right size, so that AddressSanitizer sees a step outside.
class Foreign {
 public:
  Foreign(std::string format, std::int64_t length) : format_(std::move(format)) {
    array.length = length;
    AddBuffer(nullptr, 0);  // All valid.
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  template <typename T>
  Foreign& Add(const std::vector<T>& values) {
    AddBuffer(values.data(), values.size() * sizeof(T));
    return *this;
  }
  Foreign& AddBits(const std::vector<bool>& bits) {
    const std::vector<std::uint8_t> bytes = Packed(bits);
    AddBuffer(bytes.data(), bytes.size());
    return *this;
  }
  Foreign& Child(std::unique_ptr<Foreign> child) {
    children_.push_back(std::move(child));
    return *this;
  }
  Foreign& Named(std::string name) {
    name_ = std::move(name);
    return *this;
  }
  /// Marks elements, counted from the start of the buffers, as valid or not.
  Foreign& Valid(const std::vector<bool>& valid) {
    const std::vector<std::uint8_t> bytes = Packed(valid);
    buffers_[0].assign(bytes.begin(), bytes.end());
    array.null_count = -1;
    return *this;
  }
  Foreign& Slice(std::int64_t offset, std::int64_t length) {
    array.offset = offset;
    array.length = length;
    return *this;
  }

  std::size_t buffers() const { return buffers_.size(); }
  std::vector<std::uint8_t>& buffer(std::size_t index) { return buffers_[index]; }
  Foreign& child(std::size_t index) { return *children_[index]; }

  /// Points the structs at what this holds now.
  void Finish() {
    schema.format = format_.c_str();
    schema.name = name_.c_str();
    schema.flags = ARROW_FLAG_NULLABLE;
    schema.release = &ReleaseSchema;
    array.release = &ReleaseArray;
    pointers_.clear();
    for (const auto& buffer : buffers_) {
      pointers_.push_back(buffer.empty() ? nullptr : buffer.data());
    }
    array.n_buffers = static_cast<std::int64_t>(pointers_.size());
    array.buffers = pointers_.data();
    child_schemas_.clear();
    child_arrays_.clear();
    for (const auto& child : children_) {
      child->Finish();
      child_schemas_.push_back(&child->schema);
      child_arrays_.push_back(&child->array);
    }
    schema.n_children = array.n_children = static_cast<std::int64_t>(children_.size());
    schema.children = child_schemas_.data();
    array.children = child_arrays_.data();
  }

  ArrowSchema schema{};
  ArrowArray array{};

 private:
  static std::vector<std::uint8_t> Packed(const std::vector<bool>& bits) {
    std::vector<std::uint8_t> bytes((bits.size() + 7) / 8);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (bits[i] ? 1 << (i % 8) : 0));
    }
    return bytes;
  }
  void AddBuffer(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    buffers_.emplace_back(from, from + bytes);
  }

  std::string format_;
  std::string name_;
  std::deque<std::vector<std::uint8_t>> buffers_;
  std::vector<const void*> pointers_;
  std::vector<std::unique_ptr<Foreign>> children_;
  std::vector<ArrowSchema*> child_schemas_;
  std::vector<ArrowArray*> child_arrays_;
};

using ForeignPtr = std::unique_ptr<Foreign>;

ForeignPtr New(std::string format, std::size_t length) {
  return std::make_unique<Foreign>(std::move(format), static_cast<std::int64_t>(length));
}

template <typename T>
ForeignPtr Numbers(std::string format, const std::vector<T>& values) {
  ForeignPtr array = New(std::move(format), values.size());
  array->Add(values);
  return array;
}

ForeignPtr Bools(const std::vector<bool>& values) {
  ForeignPtr array = New("b", values.size());
  array->AddBits(values);
  return array;
}

template <typename Offset>
ForeignPtr Strings(std::string format, const std::vector<std::string>& values) {
  ForeignPtr array = New(std::move(format), values.size());
  std::vector<Offset> offsets = {0};
  std::vector<char> data;
  for (const std::string& value : values) {
    data.insert(data.end(), value.begin(), value.end());
    offsets.push_back(static_cast<Offset>(data.size()));
  }
  array->Add(offsets).Add(data);
  return array;
}

template <typename Offset>
ForeignPtr Lists(std::string format, const std::vector<Offset>& offsets, ForeignPtr child) {
  ForeignPtr array = New(std::move(format), offsets.size() - 1);
  array->Add(offsets).Child(std::move(child));
  return array;
}

ForeignPtr FixedLists(std::size_t lists, int length, ForeignPtr child) {
  ForeignPtr array = New("+w:" + std::to_string(length), lists);
  array->Child(std::move(child));
  return array;
}

/// Vectors of Spark ML.
ForeignPtr Vectors(const std::vector<std::int8_t>& types, const std::vector<std::int32_t>& sizes,
                   const std::vector<std::int32_t>& index_offsets,
                   const std::vector<std::int32_t>& indices,
                   const std::vector<std::int32_t>& value_offsets,
                   const std::vector<double>& values) {
  ForeignPtr array = New("+s", types.size());
  ForeignPtr type = Numbers("c", types);
  type->Named("type");
  ForeignPtr size = Numbers("i", sizes);
  size->Named("size");
  ForeignPtr index_lists = Lists("+l", index_offsets, Numbers("i", indices));
  index_lists->Named("indices");
  ForeignPtr value_lists = Lists("+l", value_offsets, Numbers("g", values));
  value_lists->Named("values");
  array->Child(std::move(type)).Child(std::move(size));
  array->Child(std::move(index_lists)).Child(std::move(value_lists));
  return array;
}

/// A record batch of one column, x.
ForeignPtr Batch(ForeignPtr column) {
  ForeignPtr batch = New("+s", static_cast<std::size_t>(column->array.length));
  column->Named("x");
  batch->Child(std::move(column));
  return batch;
}

/// A chunk and its parsed form.
struct Chunk {
  AlignedBuffer bytes;
  chunk::ChunkView view;
  chunk::RowNode root;

  const chunk::ColumnView& column(std::size_t index = 0) const { return view.columns()[index]; }

  template <typename T>
  std::vector<T> Value(std::size_t row, std::size_t index = 0) const {
    const std::span<const std::byte> from = column(index).Value(row);
    std::vector<T> values(from.size() / sizeof(T));
    if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string Text(std::size_t row, std::size_t index = 0) const {
    const std::vector<char> chars = Value<char>(row, index);
    return {chars.begin(), chars.end()};
  }
};

struct Rows {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t number = 0;  // What messages call the first one.
};

Result<Chunk> Convert(Foreign& batch, Rows rows, Decimals decimals = Decimals::kRefuse) {
  batch.Finish();
  TFOS_ASSIGN_OR_RETURN(auto columns, ArrowColumns::Open(batch.schema, batch.array, decimals));
  TFOS_RETURN_IF_ERROR(columns->Plan(rows.begin, rows.end, rows.number));
  AlignedBuffer bytes(columns->bytes());
  TFOS_RETURN_IF_ERROR(columns->Fill(bytes.bytes()));
  TFOS_ASSIGN_OR_RETURN(chunk::ChunkView view, chunk::ChunkView::Parse(bytes.bytes()));
  TFOS_ASSIGN_OR_RETURN(chunk::RowNode root, chunk::ParseRowStructure(view));
  return Chunk{std::move(bytes), std::move(view), std::move(root)};
}

Result<Chunk> Convert(Foreign& batch, Decimals decimals = Decimals::kRefuse) {
  return Convert(batch, {0, static_cast<std::size_t>(batch.array.length)}, decimals);
}

/// All rows of a column that is expected to be convertible.
Chunk ConvertColumn(ForeignPtr column, Decimals decimals = Decimals::kRefuse) {
  const ForeignPtr batch = Batch(std::move(column));
  Result<Chunk> chunk = Convert(*batch, decimals);
  EXPECT_TRUE(chunk.ok()) << chunk.status().ToString();
  return std::move(chunk).value();
}

std::string ErrorOf(ForeignPtr column) {
  const ForeignPtr batch = Batch(std::move(column));
  const Result<Chunk> chunk = Convert(*batch);
  if (chunk.ok()) return "no error";
  EXPECT_EQ(chunk.status().kind(), ErrorKind::kBadInput);
  return chunk.status().ToString();
}

void ExpectShape(const Chunk& chunk, chunk::RowNodeKind kind, chunk::DType dtype,
                 const std::vector<std::uint64_t>& shape) {
  ASSERT_EQ(chunk.root.kind, chunk::RowNodeKind::kSparkRow);
  EXPECT_EQ(chunk.root.fields, chunk::RowFields::kList);
  EXPECT_EQ(chunk.root.keys, std::vector<std::string>{"x"});
  EXPECT_EQ(chunk.root.children[0].kind, kind);
  EXPECT_EQ(chunk.column().name, "x");
  EXPECT_EQ(chunk.column().dtype, dtype);
  EXPECT_EQ(chunk.column().shape, shape);
}

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
      "column x has a null in row 2, inside an array, where na.fill and na.drop do not look; leave "
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
