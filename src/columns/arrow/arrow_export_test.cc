#include "columns/arrow/arrow_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"

namespace tfos::columns {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A column to put into a chunk.
struct Given {
  chunk::RowNodeKind kind = chunk::RowNodeKind::kNumpyArray;
  chunk::ColumnEncoding encoding = chunk::ColumnEncoding::kTensor;
  chunk::DType dtype = chunk::DType::kNone;
  std::vector<std::uint64_t> shape = {};
  std::string data = {};
  std::vector<std::uint64_t> boundaries = {};
  std::vector<std::uint64_t> string_boundaries = {};
};

void Describe(chunk::RowNode& node, std::size_t& next) {
  if (chunk::TakesColumn(node.kind)) node.column = next++;
  for (chunk::RowNode& child : node.children) Describe(child, next);
}

std::shared_ptr<const AlignedBuffer> MakeChunk(std::int64_t rows, chunk::RowNode root,
                                               const std::vector<Given>& columns) {
  std::size_t next = 0;
  Describe(root, next);
  std::string structure;
  chunk::AppendRowStructure(root, structure);
  chunk::ChunkBuilder builder(chunk::ChunkKind::kColumnar, rows, std::move(structure));
  for (const Given& column : columns) {
    builder.AddColumn(
        {.encoding = column.encoding,
         .dtype = column.dtype,
         .shape = column.shape,
         .values = static_cast<std::uint64_t>(rows),
         .strings = column.string_boundaries.empty() ? 0 : column.string_boundaries.size() - 1,
         .data_bytes = column.data.size(),
         .name = {}});
  }
  const auto bytes = builder.Plan();
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  auto chunk = std::make_shared<AlignedBuffer>(builder.bytes());
  EXPECT_TRUE(builder.Begin(chunk->bytes()).ok());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    EXPECT_EQ(builder.data(i).size(), columns[i].data.size());
    if (!columns[i].data.empty()) {
      std::memcpy(builder.data(i).data(), columns[i].data.data(), columns[i].data.size());
    }
    for (std::size_t k = 1; k < columns[i].boundaries.size(); ++k) {
      builder.SetBoundary(i, k, columns[i].boundaries[k]);
    }
    for (std::size_t k = 1; k < columns[i].string_boundaries.size(); ++k) {
      builder.SetStringBoundary(i, k, columns[i].string_boundaries[k]);
    }
  }
  return chunk;
}

chunk::RowNode Leaf(chunk::RowNodeKind kind) {
  chunk::RowNode node;
  node.kind = kind;
  return node;
}

/// The export of a chunk, released at the end unless it was before.
struct Exported {
  explicit Exported(std::shared_ptr<const AlignedBuffer> chunk)
      : status(ExportToArrow(std::move(chunk), schema, array)) {}
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    if (schema.release != nullptr) schema.release(&schema);
    if (array.release != nullptr) array.release(&array);
  }

  ArrowSchema schema{};
  ArrowArray array{};
  Status status;
};

template <typename T>
std::vector<T> Buffer(const ArrowArray& array, int number, std::size_t count) {
  const auto* const from = static_cast<const T*>(array.buffers[number]);
  return {from, from + count};
}

TEST(ExportToArrowTest, FieldsBecomeChildrenByName) {
  chunk::RowNode root = Leaf(chunk::RowNodeKind::kDict);
  root.keys = {"id", "flag", "text", "ragged", "nothing"};
  root.children = {Leaf(chunk::RowNodeKind::kInt), Leaf(chunk::RowNodeKind::kBool),
                   Leaf(chunk::RowNodeKind::kText), Leaf(chunk::RowNodeKind::kNumpyRagged),
                   Leaf(chunk::RowNodeKind::kNone)};
  const auto chunk = MakeChunk(
      3, root,
      {{.dtype = chunk::DType::kInt64, .data = BytesOf<std::int64_t>({7, -8, 9})},
       {.dtype = chunk::DType::kBool, .data = std::string("\1\0\1", 3)},
       {.encoding = chunk::ColumnEncoding::kText, .data = "abc", .string_boundaries = {0, 2, 2, 3}},
       {.encoding = chunk::ColumnEncoding::kRagged,
        .dtype = chunk::DType::kFloat32,
        .data = BytesOf<float>({1, 2, 3, 4}),
        .boundaries = {0, 0, 3, 4}}});
  const Exported exported(chunk);
  ASSERT_TRUE(exported.status.ok()) << exported.status.ToString();
  EXPECT_EQ(exported.schema.format, std::string_view("+s"));
  EXPECT_EQ(exported.array.length, 3);
  ASSERT_EQ(exported.schema.n_children, 5);
  ASSERT_EQ(exported.array.n_children, 5);
  std::vector<std::string> names;
  std::vector<std::string> formats;
  for (int i = 0; i < 5; ++i) {
    names.emplace_back(exported.schema.children[i]->name);
    formats.emplace_back(exported.schema.children[i]->format);
    EXPECT_EQ(exported.array.children[i]->length, 3);
    EXPECT_EQ(exported.array.children[i]->offset, 0);
  }
  EXPECT_THAT(names, ElementsAre("id", "flag", "text", "ragged", "nothing"));
  EXPECT_THAT(formats, ElementsAre("l", "b", "u", "+l", "n"));

  const ArrowArray& id = *exported.array.children[0];
  EXPECT_THAT(Buffer<std::int64_t>(id, 1, 3), ElementsAre(7, -8, 9));
  EXPECT_GE(static_cast<const std::byte*>(id.buffers[1]), chunk->bytes().data());
  EXPECT_LT(static_cast<const std::byte*>(id.buffers[1]), chunk->bytes().data() + chunk->size());
  EXPECT_THAT(Buffer<std::uint8_t>(*exported.array.children[1], 1, 1), ElementsAre(0b101));
  const ArrowArray& text = *exported.array.children[2];
  EXPECT_EQ(text.n_buffers, 3);
  EXPECT_THAT(Buffer<std::int32_t>(text, 1, 4), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(Buffer<char>(text, 2, 3), ElementsAre('a', 'b', 'c'));
  const ArrowArray& ragged = *exported.array.children[3];
  EXPECT_THAT(Buffer<std::int32_t>(ragged, 1, 4), ElementsAre(0, 0, 3, 4));
  EXPECT_EQ(ragged.children[0]->length, 4);
  EXPECT_THAT(Buffer<float>(*ragged.children[0], 1, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(exported.array.children[4]->null_count, 3);
  EXPECT_EQ(exported.array.children[4]->n_buffers, 0);
}

TEST(ExportToArrowTest, DimensionsBecomeListsOfLists) {
  const auto chunk =
      MakeChunk(2, Leaf(chunk::RowNodeKind::kNumpyArray),
                {{.dtype = chunk::DType::kInt16,
                  .shape = {2, 3},
                  .data = BytesOf<std::int16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})}});
  const Exported exported(chunk);
  ASSERT_TRUE(exported.status.ok()) << exported.status.ToString();
  ASSERT_EQ(exported.array.n_children, 1);
  EXPECT_EQ(exported.schema.children[0]->name, std::string_view("0"));
  const ArrowArray& outer = *exported.array.children[0];
  EXPECT_EQ(exported.schema.children[0]->format, std::string_view("+l"));
  EXPECT_THAT(Buffer<std::int32_t>(outer, 1, 3), ElementsAre(0, 2, 4));
  const ArrowArray& inner = *outer.children[0];
  EXPECT_THAT(Buffer<std::int32_t>(inner, 1, 5), ElementsAre(0, 3, 6, 9, 12));
  EXPECT_EQ(inner.children[0]->length, 12);
  EXPECT_EQ(exported.schema.children[0]->children[0]->children[0]->format, std::string_view("s"));
}

TEST(ExportToArrowTest, ListsOfStrings) {
  chunk::RowNode root = Leaf(chunk::RowNodeKind::kTuple);
  root.children = {Leaf(chunk::RowNodeKind::kStringList), Leaf(chunk::RowNodeKind::kStringList)};
  const auto chunk = MakeChunk(2, root,
                               {{.encoding = chunk::ColumnEncoding::kText,
                                 .shape = {2},
                                 .data = "abc",
                                 .string_boundaries = {0, 1, 1, 2, 3}},
                                {.encoding = chunk::ColumnEncoding::kRaggedBytes,
                                 .data = "wxyz",
                                 .boundaries = {0, 3, 3},
                                 .string_boundaries = {0, 2, 2, 4}}});
  const Exported exported(chunk);
  ASSERT_TRUE(exported.status.ok()) << exported.status.ToString();
  const ArrowArray& pairs = *exported.array.children[0];
  EXPECT_EQ(exported.schema.children[0]->format, std::string_view("+l"));
  EXPECT_EQ(exported.schema.children[0]->children[0]->format, std::string_view("u"));
  EXPECT_THAT(Buffer<std::int32_t>(pairs, 1, 3), ElementsAre(0, 2, 4));
  EXPECT_EQ(pairs.children[0]->length, 4);
  EXPECT_THAT(Buffer<std::int32_t>(*pairs.children[0], 1, 5), ElementsAre(0, 1, 1, 2, 3));
  EXPECT_THAT(Buffer<char>(*pairs.children[0], 2, 3), ElementsAre('a', 'b', 'c'));
  const ArrowArray& ragged = *exported.array.children[1];
  EXPECT_EQ(exported.schema.children[1]->children[0]->format, std::string_view("z"));
  EXPECT_THAT(Buffer<std::int32_t>(ragged, 1, 3), ElementsAre(0, 3, 3));
  EXPECT_THAT(Buffer<std::int32_t>(*ragged.children[0], 1, 4), ElementsAre(0, 2, 2, 4));
}

TEST(ExportToArrowTest, NestedThingsBecomeStructs) {
  chunk::RowNode inner = Leaf(chunk::RowNodeKind::kTuple);
  inner.children = {Leaf(chunk::RowNodeKind::kFloat), Leaf(chunk::RowNodeKind::kBytes)};
  chunk::RowNode root = Leaf(chunk::RowNodeKind::kTuple);
  root.children = {inner, Leaf(chunk::RowNodeKind::kInt)};
  const Exported exported(MakeChunk(
      1, root,
      {{.dtype = chunk::DType::kFloat64, .data = BytesOf<double>({0.5})},
       {.encoding = chunk::ColumnEncoding::kBytes, .data = "xy", .string_boundaries = {0, 2}},
       {.dtype = chunk::DType::kInt64, .data = BytesOf<std::int64_t>({3})}}));
  ASSERT_TRUE(exported.status.ok()) << exported.status.ToString();
  const ArrowSchema& nested = *exported.schema.children[0];
  EXPECT_EQ(nested.format, std::string_view("+s"));
  EXPECT_EQ(nested.children[1]->name, std::string_view("1"));
  EXPECT_EQ(nested.children[1]->format, std::string_view("z"));
}

TEST(ExportToArrowTest, AChildThatWasMovedOutOutlivesTheRest) {
  auto chunk = MakeChunk(2, Leaf(chunk::RowNodeKind::kInt),
                         {{.dtype = chunk::DType::kInt64, .data = BytesOf<std::int64_t>({4, 5})}});
  const std::weak_ptr<const AlignedBuffer> watched = chunk;
  ArrowArray moved{};
  {
    const Exported exported(std::move(chunk));
    moved = *exported.array.children[0];
    exported.array.children[0]->release = nullptr;
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_THAT(Buffer<std::int64_t>(moved, 1, 2), ElementsAre(4, 5));
  moved.release(&moved);
  EXPECT_EQ(moved.release, nullptr);
  EXPECT_TRUE(watched.expired());
}

TEST(ExportToArrowTest, NoRows) {
  const Exported exported(MakeChunk(0, Leaf(chunk::RowNodeKind::kNone), {}));
  ASSERT_TRUE(exported.status.ok()) << exported.status.ToString();
  EXPECT_EQ(exported.array.length, 0);
}

TEST(ExportToArrowTest, WhatArrowDoesNotHave) {
  const Exported complex(
      MakeChunk(1, Leaf(chunk::RowNodeKind::kNumpyScalar),
                {{.dtype = chunk::DType::kComplex64, .data = std::string(8, '\0')}}));
  EXPECT_EQ(complex.status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(complex.status.ToString(), HasSubstr("column 0 is complex64"));
  EXPECT_EQ(complex.array.release, nullptr);

  // No bytes, and more lists than offsets can count.
  const Exported large(
      MakeChunk(3, Leaf(chunk::RowNodeKind::kNumpyArray),
                {{.dtype = chunk::DType::kInt8, .shape = {std::uint64_t{1} << 30, 0}}}));
  EXPECT_EQ(large.status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(large.status.ToString(), HasSubstr("Arrow's lists and strings take 2147483647"));
}

TEST(ExportToArrowTest, PickledRowsAndOtherBytes) {
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledRows, 1);
  builder.AddColumn(
      {.encoding = chunk::ColumnEncoding::kOpaque, .shape = {}, .values = 1, .name = {}});
  ASSERT_TRUE(builder.Plan().ok());
  auto pickled = std::make_shared<AlignedBuffer>(builder.bytes());
  ASSERT_TRUE(builder.Begin(pickled->bytes()).ok());
  builder.SetStringBoundary(0, 1, 0);
  EXPECT_THAT(Exported(pickled).status.ToString(), HasSubstr("pickled"));
  EXPECT_FALSE(Exported(std::make_shared<AlignedBuffer>(100)).status.ok());
}

}  // namespace
}  // namespace tfos::columns
