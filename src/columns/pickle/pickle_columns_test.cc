#include "columns/pickle/pickle_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "testing/pickler.h"
#include "testing/scarce_memory.h"

namespace tfos::columns {
namespace {

using testing::ElementsAre;

/// A chunk of these pickles.
std::vector<std::byte> ChunkOf(const std::vector<std::string>& pickles) {
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
  chunk::ColumnSpec spec;
  spec.encoding = chunk::ColumnEncoding::kOpaque;
  spec.values = pickles.size();
  for (const std::string& pickle : pickles) spec.data_bytes += pickle.size();
  builder.AddColumn(std::move(spec));
  std::vector<std::byte> chunk(builder.Plan().value());
  EXPECT_TRUE(builder.Begin(chunk).ok());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < pickles.size(); ++i) {
    std::memcpy(builder.data(0).data() + at, pickles[i].data(), pickles[i].size());
    at += pickles[i].size();
    builder.SetStringBoundary(0, i + 1, at);
  }
  return chunk;
}

/// The columns that came of a chunk.
struct Columns {
  PooledBuffer memory;
  chunk::ChunkView view;
  chunk::RowNode root;

  template <typename T>
  std::vector<T> Data(std::size_t column) const {
    std::vector<T> data(view.columns()[column].data.size() / sizeof(T));
    if (!data.empty()) {
      std::memcpy(data.data(), view.columns()[column].data.data(), data.size() * sizeof(T));
    }
    return data;
  }
  std::string Text(std::size_t column) const {
    const std::vector<char> data = Data<char>(column);
    return {data.begin(), data.end()};
  }
  std::vector<std::uint64_t> Boundaries(std::size_t column) const {
    const chunk::ColumnView& of = view.columns()[column];
    std::vector<std::uint64_t> boundaries;
    const bool strings = chunk::HoldsStrings(of.encoding);
    for (std::uint64_t i = 0; i <= of.values; ++i) {
      boundaries.push_back(strings ? of.StringBoundary(i) : of.Boundary(i));
    }
    return boundaries;
  }
};

class PickleColumnsTest : public testing::Test {
 protected:
  std::optional<Columns> Convert(const std::vector<std::string>& pickles) {
    const std::vector<std::byte> chunk = ChunkOf(pickles);
    const auto view = chunk::ChunkView::Parse(chunk);
    auto converted = columns_.Convert(*view);
    EXPECT_TRUE(converted.ok());
    if (!*converted) return std::nullopt;
    const std::span<const std::byte> bytes = (*converted)->bytes;
    auto columnar = chunk::ChunkView::Parse(bytes);
    EXPECT_TRUE(columnar.ok());
    auto root = chunk::ParseRowStructure(*columnar);
    EXPECT_TRUE(root.ok());
    return Columns{std::move(**converted), std::move(*columnar), std::move(*root)};
  }

  /// Converts one pickle that holds a list of these rows.
  std::optional<Columns> Convert(Pickler rows) { return Convert({rows.Op("e").Stop()}); }

  static Pickler Rows() {
    Pickler pickler;
    pickler.Op("](");
    return pickler;
  }

  BufferPool pool_;
  PickleColumns columns_{pool_};
};

TEST_F(PickleColumnsTest, RowsOfNumbers) {
  const auto ints = Convert({Pickler().Ints({1, 2}).Int(3).Op("a").Stop(), Pickler().Op("]").Stop(),
                             Pickler().Ints({4}).Stop()});
  EXPECT_EQ(ints->root.kind, chunk::RowNodeKind::kInt);
  EXPECT_THAT(ints->Data<std::int64_t>(0), ElementsAre(1, 2, 3, 4));
  const auto floats = Convert({Pickler().Floats({1.5, -0.0}).Stop()});
  EXPECT_EQ(floats->root.kind, chunk::RowNodeKind::kFloat);
  EXPECT_THAT(floats->Data<double>(0), ElementsAre(1.5, -0.0));
  const auto bools = Convert(Rows().Op("\x88\x89\x88"));
  EXPECT_EQ(bools->root.kind, chunk::RowNodeKind::kBool);
  EXPECT_THAT(bools->Data<std::uint8_t>(0), ElementsAre(1, 0, 1));
}

TEST_F(PickleColumnsTest, NoRows) {
  const auto none = Convert({Pickler().Op("]").Stop(), Pickler().Op("]").Stop()});
  EXPECT_EQ(none->view.rows(), 0);
  EXPECT_EQ(none->root.kind, chunk::RowNodeKind::kNone);
  EXPECT_EQ(Convert(std::vector<std::string>())->view.rows(), 0);
}

TEST_F(PickleColumnsTest, TuplesOfListsAndLabels) {
  const auto columns =
      Convert(Rows().Floats({1, 2}).Int(7).Op("\x86").Floats({3, 4}).Int(8).Op("\x86"));
  ASSERT_EQ(columns->root.kind, chunk::RowNodeKind::kTuple);
  EXPECT_EQ(columns->root.children[0].kind, chunk::RowNodeKind::kNumberList);
  EXPECT_THAT(columns->view.columns()[0].shape, ElementsAre(2));
  EXPECT_THAT(columns->Data<double>(0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(columns->Data<std::int64_t>(1), ElementsAre(7, 8));
}

TEST_F(PickleColumnsTest, ListsOfDifferentLengthsAreRagged) {
  const auto columns = Convert(Rows().Op("]").Ints({1, 2}).Int(3).Op("a").Ints({4}));
  EXPECT_EQ(columns->root.kind, chunk::RowNodeKind::kNumberList);
  EXPECT_EQ(columns->view.columns()[0].encoding, chunk::ColumnEncoding::kRagged);
  EXPECT_THAT(columns->Boundaries(0), ElementsAre(0, 0, 3, 4));
  EXPECT_THAT(columns->Data<std::int64_t>(0), ElementsAre(1, 2, 3, 4));
}

TEST_F(PickleColumnsTest, Strings) {
  const auto text = Convert(Rows().Text("a").Text("").Text("bc"));
  EXPECT_EQ(text->root.kind, chunk::RowNodeKind::kText);
  EXPECT_THAT(text->Boundaries(0), ElementsAre(0, 1, 1, 3));
  EXPECT_EQ(text->Text(0), "abc");
  EXPECT_EQ(Convert(Rows().Bytes("x\xFF"))->root.kind, chunk::RowNodeKind::kBytes);
  EXPECT_FALSE(Convert(Rows().Text("\xED\xA0\x80")));
}

TEST_F(PickleColumnsTest, DictsAndSparkRows) {
  Pickler dicts = Rows();
  for (int i = 0; i < 2; ++i) {
    dicts.Op("}(").Text("a").Int(i).Text("b").Text("x").Op("u");
  }
  const auto columns = Convert(dicts);
  EXPECT_EQ(columns->root.kind, chunk::RowNodeKind::kDict);
  EXPECT_THAT(columns->root.keys, ElementsAre("a", "b"));
  EXPECT_THAT(columns->Data<std::int64_t>(0), ElementsAre(0, 1));
  EXPECT_EQ(columns->Text(1), "xx");

  Pickler rows = Rows();
  for (int i = 0; i < 2; ++i) {
    rows.Global("pyspark.sql.types", "_create_row").Op("](");
    for (const char* name : {"a", "b", "c", "d"}) rows.Text(name);
    rows.Op("e(").Int(i).Int(2).Int(3).Int(4).Op("t\x86R");
  }
  const auto of_rows = Convert(rows);
  EXPECT_EQ(of_rows->root.kind, chunk::RowNodeKind::kSparkRow);
  EXPECT_THAT(of_rows->root.keys, ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(of_rows->Data<std::int64_t>(0), ElementsAre(0, 1));
  EXPECT_THAT(of_rows->Data<std::int64_t>(3), ElementsAre(4, 4));
}

TEST_F(PickleColumnsTest, Arrays) {
  const auto dense = Convert(Rows().Array("i1", {2, 1}, "ab").Array("i1", {2, 1}, "cd"));
  EXPECT_EQ(dense->root.kind, chunk::RowNodeKind::kNumpyArray);
  EXPECT_THAT(dense->view.columns()[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(dense->Text(0), "abcd");
  const auto ragged = Convert(Rows().Array("i1", {2}, "ab").Array("i1", {0}, ""));
  EXPECT_EQ(ragged->root.kind, chunk::RowNodeKind::kNumpyRagged);
  EXPECT_THAT(ragged->Boundaries(0), ElementsAre(0, 2, 2));
  const auto scalars = Convert(Rows().Scalar("i2", "ab").Scalar("i2", "cd"));
  EXPECT_EQ(scalars->root.kind, chunk::RowNodeKind::kNumpyScalar);
  EXPECT_EQ(scalars->view.columns()[0].dtype, chunk::DType::kInt16);
}

TEST_F(PickleColumnsTest, WhatIsLeftToPython) {
  const Pickler different[] = {
      Rows().Op("N"),
      Rows().Int(1).Float(2),
      Rows().Int(1).Op("\x88"),
      Rows().Ints({1}).Floats({1}),
      Rows().Op("]]"),
      Rows().Int(1).Float(2).Op("\x86").Int(1).Int(2).Op("\x86"),
      Rows().Int(1).Float(2).Op("\x86").Int(1).Op("\x85"),
      Rows().Int(1).Op("N\x86"),
      Rows().Int(1).Op("]\x86"),
      Rows().Op(")"),
      Rows().Op("}"),
      Rows().Op("}").Int(1).Int(2).Op("s"),
      Rows().Op("}(").Text("a").Int(1).Text("a").Int(2).Op("u"),
      Rows().Op("}").Text("a").Int(1).Op("s}").Text("b").Int(1).Op("s"),
      Rows().Int(1).Text("a").Op("\x86").Text("b").Op("\x86"),
      Rows().ByteArray("a"),
      Rows().Array("i1", {1}, "a").Array("u1", {1}, "a"),
      Rows().Array("i1", {1, 1}, "a").Array("i1", {1, 2}, "ab"),
      Rows().Array("i1", {1}, "a").Array("i1", {}, "a"),
      Rows().Scalar("i1", "a").Scalar("u1", "a"),
  };
  for (const Pickler& rows : different) {
    EXPECT_TRUE(Convert(Rows().Int(1)));  // So that it does not lose patience.
    EXPECT_FALSE(Convert(rows)) << &rows - different;
  }
  EXPECT_FALSE(Convert({Pickler().Int(1).Stop()}));
}

TEST_F(PickleColumnsTest, TakesTheFirstRowWithItemsAsTheSample) {
  EXPECT_FALSE(Convert(Rows().Op("])")));  // An empty list, an empty tuple.
  EXPECT_EQ(Convert(Rows().Op("]]").Floats({1}))->root.kind, chunk::RowNodeKind::kNumberList);
}

TEST_F(PickleColumnsTest, TriesRarelyAfterSeveralRefusals) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(Convert(Rows().Op("N")));
  int refused = 0;
  while (!Convert(Rows().Int(1))) ++refused;
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 100);
  EXPECT_TRUE(Convert(Rows().Int(1)));
}

// Readers take kRetryLater for a wait that goes on.
TEST_F(PickleColumnsTest, SaysThatMemoryIsUsedUp) {
  const std::vector<std::byte> chunk = ChunkOf({Pickler().Ints({1, 2, 3}).Stop()});
  const ScarceMemory scarce(1);
  EXPECT_EQ(columns_.Convert(*chunk::ChunkView::Parse(chunk)).status().kind(),
            ErrorKind::kNoResources);
}

TEST_F(PickleColumnsTest, ReferencesMayNotGrowWithoutBounds) {
  const std::string large(std::size_t{1} << 20, 'x');
  Pickler rows = Rows();
  rows.Bytes(large).Memoize();
  for (int i = 0; i < 10; ++i) rows.Get(0);
  EXPECT_EQ(Convert(rows)->view.rows(), 11);
  for (int i = 0; i < 100000; ++i) rows.Get(0);
  EXPECT_FALSE(Convert(rows));  // 100 GB.

  Pickler lists = Rows();
  lists.Op("](");
  for (int i = 0; i < 200000; ++i) lists.Op("\x88");
  lists.Op("e").Memoize();
  for (int i = 0; i < 200000; ++i) lists.Get(0);
  EXPECT_FALSE(Convert(lists));

  Pickler wide = Rows();
  wide.Op("(");
  for (int i = 0; i < 4000; ++i) wide.Op(i % 2 == 0 ? "\x88" : "K\x01");
  wide.Op("t").Memoize();
  for (int i = 0; i < 300000; ++i) wide.Get(0);
  EXPECT_FALSE(Convert(wide));
}

TEST_F(PickleColumnsTest, FlippedBitsGiveColumnsOrNothing) {
  Pickler pickler = Rows();
  for (int i = 0; i < 3; ++i) {
    pickler.Op("(").Floats({1, 2}).Int(i).Text("t").Array("f4", {1}, "1234").Op("t");
  }
  const std::string whole = pickler.Op("e").Stop();
  int survived = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    survived += Convert({flipped}) ? 1 : 0;
  }
  EXPECT_GT(survived, 0);
}

}  // namespace
}  // namespace tfos::columns
