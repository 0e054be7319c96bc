#include "chunk/row_structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tfos::chunk {
namespace {

using testing::HasSubstr;

RowNode Node(RowNodeKind kind, std::vector<RowNode> children = {},
             std::vector<std::string> keys = {}) {
  RowNode node;
  node.kind = kind;
  node.children = std::move(children);
  node.keys = std::move(keys);
  return node;
}

ColumnSpec Tensor(DType dtype, std::vector<std::uint64_t> shape = {}) {
  ColumnSpec spec;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  return spec;
}

ColumnSpec Variable(ColumnEncoding encoding, DType dtype = DType::kNone) {
  ColumnSpec spec;
  spec.encoding = encoding;
  spec.dtype = dtype;
  return spec;
}

/// Parses `structure` as that of a chunk without rows that has `columns`.
Result<RowNode> Parse(const std::string& structure, std::vector<ColumnSpec> columns) {
  ChunkBuilder builder(ChunkKind::kColumnar, 0, structure);
  for (ColumnSpec& spec : columns) builder.AddColumn(std::move(spec));
  std::vector<std::byte> bytes(builder.Plan().value());
  EXPECT_TRUE(builder.Begin(bytes).ok());
  const auto view = ChunkView::Parse(bytes);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  return ParseRowStructure(*view);
}

std::string Serialised(const RowNode& node) {
  std::string text;
  AppendRowStructure(node, text);
  return text;
}

TEST(RowStructureTest, GivesBackANestedStructure) {
  RowNode row = Node(RowNodeKind::kSparkRow,
                     {Node(RowNodeKind::kText), Node(RowNodeKind::kNumpyArray)}, {"name", "x"});
  row.fields = RowFields::kRow;
  const RowNode root =
      Node(RowNodeKind::kTuple,
           {Node(RowNodeKind::kNumberList), Node(RowNodeKind::kNone),
            Node(RowNodeKind::kDict, {row, Node(RowNodeKind::kBool)}, {"", "k\xC3\xA4y"})});
  const auto parsed =
      Parse(Serialised(root), {Tensor(DType::kFloat64, {784}), Variable(ColumnEncoding::kText),
                               Tensor(DType::kUint8, {28, 28}), Tensor(DType::kBool)});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(Serialised(*parsed), Serialised(root));
  const RowNode& dict = parsed->children[2];
  EXPECT_EQ(dict.keys, (std::vector<std::string>{"", "k\xC3\xA4y"}));
  EXPECT_EQ(dict.children[0].fields, RowFields::kRow);
  EXPECT_EQ(parsed->children[0].column, 0U);
  EXPECT_EQ(dict.children[0].children[1].column, 2U);
  EXPECT_EQ(dict.children[1].column, 3U);
}

TEST(RowStructureTest, RaggedArraysHaveElementsOfAnyType) {
  for (const DType dtype : {DType::kBool, DType::kFloat16, DType::kComplex128}) {
    const auto parsed = Parse(Serialised(Node(RowNodeKind::kNumpyRagged)),
                              {Variable(ColumnEncoding::kRagged, dtype)});
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(parsed->kind, RowNodeKind::kNumpyRagged);
  }
}

TEST(RowStructureTest, ListsOfStringsHaveAShapeOrAreRagged) {
  ColumnSpec pairs = Variable(ColumnEncoding::kText);
  pairs.shape = {2};
  for (const ColumnSpec& column :
       {pairs, Variable(ColumnEncoding::kRaggedText), Variable(ColumnEncoding::kRaggedBytes)}) {
    const auto parsed = Parse(Serialised(Node(RowNodeKind::kStringList)), {column});
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(parsed->kind, RowNodeKind::kStringList);
    EXPECT_FALSE(Parse(Serialised(Node(RowNodeKind::kText)), {column}).ok());
    EXPECT_FALSE(Parse(Serialised(Node(RowNodeKind::kBytes)), {column}).ok());
  }
}

struct Misfit {
  RowNodeKind kind;
  ColumnSpec column;
};

TEST(RowStructureTest, ChecksTheColumnOfEveryNode) {
  const std::vector<Misfit> misfits = {
      {RowNodeKind::kBool, Tensor(DType::kInt8)},
      {RowNodeKind::kInt, Tensor(DType::kInt64, {1})},
      {RowNodeKind::kInt, Tensor(DType::kInt32)},
      {RowNodeKind::kFloat, Tensor(DType::kFloat32)},
      {RowNodeKind::kFloat, Variable(ColumnEncoding::kRagged, DType::kFloat64)},
      {RowNodeKind::kText, Variable(ColumnEncoding::kBytes)},
      {RowNodeKind::kBytes, Variable(ColumnEncoding::kText)},
      {RowNodeKind::kNumpyScalar, Tensor(DType::kFloat32, {1})},
      {RowNodeKind::kNumpyArray, Variable(ColumnEncoding::kRagged, DType::kFloat32)},
      {RowNodeKind::kNumberList, Tensor(DType::kFloat64)},
      {RowNodeKind::kNumberList, Tensor(DType::kFloat32, {2})},
      {RowNodeKind::kNumberTuple, Tensor(DType::kFloat64, {2, 2})},
      {RowNodeKind::kNumberTuple, Variable(ColumnEncoding::kRagged, DType::kInt8)},
      {RowNodeKind::kNumpyRagged, Tensor(DType::kFloat32, {2})},
      {RowNodeKind::kNumpyRagged, Variable(ColumnEncoding::kBytes)},
      {RowNodeKind::kNumpyRagged, Variable(ColumnEncoding::kRaggedText)},
      {RowNodeKind::kStringList, Variable(ColumnEncoding::kText)},
      {RowNodeKind::kStringList, Variable(ColumnEncoding::kRagged, DType::kInt64)},
  };
  for (const Misfit& misfit : misfits) {
    const auto parsed = Parse(Serialised(Node(misfit.kind)), {misfit.column});
    ASSERT_FALSE(parsed.ok()) << static_cast<int>(misfit.kind);
    EXPECT_THAT(parsed.status().message(), HasSubstr("not of the sort"));
  }
}

TEST(RowStructureTest, RefusesWhatDoesNotAddUp) {
  const std::string two_ints =
      Serialised(Node(RowNodeKind::kTuple, {Node(RowNodeKind::kInt), Node(RowNodeKind::kInt)}));
  const ColumnSpec column = Tensor(DType::kInt64);
  ASSERT_TRUE(Parse(two_ints, {column, column}).ok());
  EXPECT_FALSE(Parse(two_ints, {column}).ok()) << "too few columns";
  EXPECT_FALSE(Parse(two_ints, {column, column, column}).ok()) << "a column is left";
  EXPECT_FALSE(Parse(two_ints + '\0', {column, column}).ok()) << "a byte is left";
  EXPECT_FALSE(Parse(two_ints.substr(0, two_ints.size() - 1), {column}).ok()) << "cut off";
  EXPECT_FALSE(Parse("", {}).ok()) << "empty";
  EXPECT_FALSE(Parse("\x0F", {}).ok()) << "unknown code";
  EXPECT_FALSE(Parse(std::string("\x08\xFF\xFF\xFF\xFF\0", 6), {}).ok()) << "too many children";
  const auto nested = Parse(std::string("\x08\3\0\0\0\x08\3\0\0\0\0\0\0", 13), {});
  EXPECT_THAT(nested.status().message(), HasSubstr("more children than bytes")) << "in all";
  EXPECT_FALSE(Parse(std::string("\x0A\1\0\0\0\xFF\0\0\0", 9), {}).ok()) << "long key";
  EXPECT_FALSE(Parse(std::string("\x0B\2\0\0\0\0", 6), {}).ok()) << "unknown sort of Row";
}

TEST(RowStructureTest, RefusesDeepNesting) {
  RowNode node = Node(RowNodeKind::kNone);
  for (int depth = 1; depth < kMaxRowDepth; ++depth) node = Node(RowNodeKind::kList, {node});
  EXPECT_TRUE(Parse(Serialised(node), {}).ok());
  EXPECT_FALSE(Parse(Serialised(Node(RowNodeKind::kList, {node})), {}).ok());
}

TEST(RowStructureTest, PicklesHaveNone) {
  ChunkBuilder builder(ChunkKind::kPickledBatches, kUnknownRows);
  builder.AddColumn(Variable(ColumnEncoding::kOpaque));
  std::vector<std::byte> bytes(builder.Plan().value());
  ASSERT_TRUE(builder.Begin(bytes).ok());
  const auto view = ChunkView::Parse(bytes);
  ASSERT_TRUE(view.ok());
  EXPECT_FALSE(ParseRowStructure(*view).ok());
}

}  // namespace
}  // namespace tfos::chunk
