#include "columns/pickle/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "testing/pickler.h"

namespace tfos::columns {
namespace {

using testing::ElementsAre;

class PickleReaderTest : public testing::Test {
 protected:
  std::optional<PickleValue> Read(std::string pickle) {
    pickle_ = std::move(pickle);
    return reader_.Read(std::as_bytes(std::span(pickle_)));
  }
  std::optional<PickleValue> Read(const Pickler& pickler) { return Read(pickler.Stop()); }
  bool Refuses(const Pickler& pickler) { return !Read(pickler); }

  std::vector<std::int64_t> IntsOf(const PickleValue& value) {
    std::vector<std::int64_t> ints;
    for (const PickleRun* run = &value.items->first; run != nullptr; run = run->next) {
      for (std::uint64_t i = 0; i < run->size; ++i) {
        ints.push_back(run->form == PickleRun::Form::kInts ? run->ints[i] : run->values[i].number);
      }
    }
    EXPECT_EQ(ints.size(), value.items->size);
    return ints;
  }

  PickleReader reader_;
  std::string pickle_;  ///< What the values borrow.
};

TEST_F(PickleReaderTest, Scalars) {
  EXPECT_EQ(Read(Pickler().Op("N"))->kind, PickleKind::kNone);
  EXPECT_EQ(Read(Pickler().Op("\x88"))->number, 1);
  EXPECT_EQ(Read(Pickler().Op("\x89"))->kind, PickleKind::kBool);
  EXPECT_EQ(Read(Pickler().Float(-2.5))->real, -2.5);
  EXPECT_EQ(Read(Pickler().Text("t\xC3\xA4"))->text(), "t\xC3\xA4");
  EXPECT_EQ(Read(Pickler().Bytes("xyz"))->text(), "xyz");
  EXPECT_EQ(Read(Pickler().ByteArray("xyz"))->kind, PickleKind::kByteArray);
}

TEST_F(PickleReaderTest, Ints) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{255}, std::int64_t{256},
                                   std::int64_t{65535}, std::int64_t{65536}, std::int64_t{-1},
                                   std::int64_t{1} << 40, Limits::min(), Limits::max()}) {
    EXPECT_EQ(Read(Pickler().Int(value))->number, value);
  }
  EXPECT_EQ(Read(Pickler().Op(std::string_view("\x8a\0", 2)))->number, 0);
  EXPECT_EQ(Read(Pickler().Op("\x8a\x03\xff\xff\x80"))->number, -0x7f0001);
  // A number of more than 64 bits.
  EXPECT_TRUE(Refuses(Pickler().Op(std::string_view("\x8a\x09\0\0\0\0\0\0\0\x80\0", 11))));
}

TEST_F(PickleReaderTest, RunsOfNumbers) {
  const auto floats = Read(Pickler().Floats({1.5, -2, 3}));
  ASSERT_EQ(floats->kind, PickleKind::kList);
  ASSERT_EQ(floats->items->first.form, PickleRun::Form::kFloats);
  EXPECT_EQ(floats->items->first.Float(2), 3);
  const auto ints = Read(Pickler().Ints({1, 300, -7, std::int64_t{1} << 50}));
  EXPECT_EQ(ints->items->first.form, PickleRun::Form::kInts);
  EXPECT_THAT(IntsOf(*ints), ElementsAre(1, 300, -7, std::int64_t{1} << 50));
  const auto tuple = Read(Pickler().Op("(").Int(1).Int(2).Int(3).Int(4).Op("t"));
  EXPECT_EQ(tuple->kind, PickleKind::kTuple);
  EXPECT_THAT(IntsOf(*tuple), ElementsAre(1, 2, 3, 4));
  // What begins like a run.
  const auto mixed = Read(Pickler().Op("(").Int(1).Int(2).Float(3).Op("t"));
  ASSERT_EQ(mixed->items->first.form, PickleRun::Form::kValues);
  EXPECT_EQ(mixed->items->first.values[1].number, 2);
  EXPECT_EQ(mixed->items->first.values[2].real, 3);
  const auto other = Read(Pickler().Op("(").Float(1).Float(2).Text("x").Op("t"));
  EXPECT_EQ(other->items->first.values[1].real, 2);
}

TEST_F(PickleReaderTest, ListsGrowInSeveralRuns) {
  const auto list = Read(Pickler().Ints({1, 2}).Int(3).Op("a(").Int(4).Int(5).Op("e(e"));
  EXPECT_THAT(IntsOf(*list), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(reader_.Values(*list->items), nullptr);
}

TEST_F(PickleReaderTest, RunsTurnIntoValues) {
  const auto ints = Read(Pickler().Ints({5, 6}));
  const PickleValue* const values = reader_.Values(*ints->items);
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(values[1].kind, PickleKind::kInt);
  EXPECT_EQ(values[1].number, 6);
  EXPECT_EQ(reader_.Values(*ints->items), values);
  const auto floats = Read(Pickler().Floats({1, 2.5}));
  EXPECT_EQ(reader_.Values(*floats->items)[1].real, 2.5);
}

TEST_F(PickleReaderTest, TheMemoKeepsObjectsThemselves) {
  // The list is referred to before it is filled.
  const auto pair = Read(Pickler().Op("]").Memoize().Get(0).Int(7).Op("a\x86"));
  const PickleValue* const values = reader_.Values(*pair->items);
  EXPECT_EQ(values[0].items, values[1].items);
  EXPECT_THAT(IntsOf(values[0]), ElementsAre(7));
  const auto circle = Read(Pickler().Op("]").Memoize().Get(0).Op("a"));
  EXPECT_EQ(reader_.Values(*circle->items)[0].items, circle->items);
}

TEST_F(PickleReaderTest, MemoIndicesOfOlderProtocols) {
  const std::string old = std::string("\x80\x02", 2) + std::string("X\x01\0\0\0a", 6) +
                          std::string("q\0", 2) + std::string("r\x01\0\0\0", 5) +
                          std::string("h\0", 2) + std::string("j\x01\0\0\0", 5) + "\x87.";
  EXPECT_EQ(reader_.Values(*Read(old)->items)[2].text(), "a");
  EXPECT_TRUE(Refuses(Pickler().Int(1).Op("q\x01")));  // A gap.
  EXPECT_TRUE(Refuses(Pickler().Int(1).Memoize().Get(1)));
}

TEST_F(PickleReaderTest, Dicts) {
  const auto dict = Read(Pickler().Op("}").Text("a").Int(1).Op("s"));
  EXPECT_EQ(dict->kind, PickleKind::kDict);
  EXPECT_EQ(reader_.Values(*dict->items)[0].text(), "a");
  EXPECT_EQ(Read(Pickler().Op("}(").Text("a").Int(1).Text("b").Int(2).Op("u"))->items->size, 4U);
  EXPECT_TRUE(Refuses(Pickler().Op("}(").Text("a").Op("u")));
}

TEST_F(PickleReaderTest, Arrays) {
  const auto array = Read(Pickler().Array("i2", {1, 2}, "abcd"));
  ASSERT_EQ(array->kind, PickleKind::kNumpyArray);
  EXPECT_EQ(array->array->dtype, chunk::DType::kInt16);
  EXPECT_THAT(std::span(array->array->shape, array->array->rank), ElementsAre(1, 2));
  EXPECT_EQ(array->array->data.size(), 4U);
  EXPECT_EQ(Read(Pickler().Array("i1", {1, 1, 1, 1, 1}, "a"))->array->rank, 5U);
  EXPECT_EQ(Read(Pickler().Array("f8", {}, "12345678"))->array->rank, 0U);
  EXPECT_EQ(Read(Pickler().Array("f8", {0}, ""))->array->data.size(), 0U);
  EXPECT_EQ(Read(Pickler().Scalar("f4", "abcd"))->dtype, chunk::DType::kFloat32);
}

Pickler Reconstructed(std::string_view module) {
  Pickler pickler;
  pickler.Global(module, "_reconstruct").Global("numpy", "ndarray").Int(0).Op("\x85");
  return pickler.Bytes("b").Op("\x87R");
}

TEST_F(PickleReaderTest, ArraysOfOlderProtocols) {
  for (const char* module : {"numpy.core.multiarray", "numpy._core.multiarray"}) {
    Pickler pickler = Reconstructed(module);
    EXPECT_EQ(Read(pickler)->array->dtype, chunk::DType::kNone);
    pickler.Op("(").Int(1).Int(2).Op("\x85").DType("u1").Op("\x89").Bytes("ab").Op("tb");
    EXPECT_EQ(Read(pickler)->array->dtype, chunk::DType::kUint8);
    EXPECT_EQ(Read(pickler)->array->data.size(), 2U);
  }
  Pickler fortran = Reconstructed("numpy.core.multiarray");
  fortran.Op("(").Int(1).Int(2).Op("\x85").DType("u1").Op("\x88").Bytes("ab").Op("tb");
  EXPECT_TRUE(Refuses(fortran));
}

TEST_F(PickleReaderTest, ArraysThatAreNone) {
  EXPECT_TRUE(Refuses(Pickler().Array("i2", {3}, "abcd")));
  EXPECT_TRUE(Refuses(Pickler().Array("i2", {-1}, "abcd")));
  EXPECT_TRUE(Refuses(Pickler().Array("O8", {1}, "12345678")));
  EXPECT_TRUE(Refuses(Pickler().Array("i1", {std::int64_t{1} << 62, 8, 0}, "")));
  EXPECT_TRUE(Refuses(Pickler().Scalar("i2", "abc")));
  // Big-endian.
  EXPECT_TRUE(Refuses(Pickler()
                          .Global("numpy", "dtype")
                          .Text("f8")
                          .Op("\x89\x88\x87R(K\x03")
                          .Text(">")
                          .Op("NNN")
                          .Int(-1)
                          .Int(-1)
                          .Int(0)
                          .Op("tb")));
  // An array of bytes, which cannot be written to.
  EXPECT_TRUE(Refuses(Pickler()
                          .Global("numpy._core.numeric", "_frombuffer")
                          .Op("(")
                          .Bytes("a")
                          .DType("i1")
                          .Int(1)
                          .Op("\x85")
                          .Text("C")
                          .Op("tR")));
}

TEST_F(PickleReaderTest, SparkRows) {
  const auto row = Read(Pickler()
                            .Global("pyspark.sql.types", "_create_row")
                            .Op("](")
                            .Text("a")
                            .Text("b")
                            .Op("e")
                            .Int(1)
                            .Int(2)
                            .Op("\x86\x86R"));
  ASSERT_EQ(row->kind, PickleKind::kSparkRow);
  EXPECT_EQ(row->row->fields.items->size, 2U);
  EXPECT_EQ(row->row->values->size, 2U);
}

TEST_F(PickleReaderTest, RefusesWhatItDoesNotKnow) {
  for (const char* bytes : {"\x80\x06N", "I1\n",  "cos\nsystem\n",
                            "S'a'\n",    "o",     "P1\n",
                            "\x98",      "\x97",  "0",
                            "2",         "(N",    "NN",
                            "",          "\x86",  "R",
                            "b",         "e",     "t",
                            "u",         "s",     "a",
                            "\x94",      "q\x01", "Na",
                            "]]s"}) {
    EXPECT_TRUE(Refuses(Pickler().Op(bytes))) << bytes;
  }
  EXPECT_TRUE(Refuses(Pickler().Global("os", "system").Text("true").Op("\x85R")));
  EXPECT_FALSE(Read(Pickler().Int(1).Stop() + "more"));
  EXPECT_FALSE(Read(""));
}

/// A pickle with a bit of everything.
std::string Everything() {
  Pickler pickler;
  pickler.Op("]").Memoize().Op("(").Floats({1, 2, 3}).Ints({1, 300, 70000}).Text("abc").Memoize();
  pickler.Bytes("bytes").Array("f4", {1, 2}, "12345678").Scalar("i8", "12345678").Op("}(").Get(1);
  pickler.Int(1).Op("u").Int(-5).Int(6).Op("\x86").Memoize().Get(2).Op("\x88Ne");
  return pickler.Stop();
}

TEST_F(PickleReaderTest, EveryTruncationIsRefused) {
  const std::string whole = Everything();
  ASSERT_TRUE(Read(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // The part has exactly this size, so that AddressSanitizer sees a step outside.
    const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(reader_.Read(std::as_bytes(std::span(part)))) << size;
  }
}

/// Looks at all that values refer to inside the pickle.
std::uint64_t Touch(const PickleValue& value, int depth = 0) {
  std::uint64_t sum = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum += static_cast<std::uint64_t>(byte);
  };
  if (depth > 4) return sum;
  switch (value.kind) {
    case PickleKind::kText:
    case PickleKind::kBytes:
    case PickleKind::kByteArray:
    case PickleKind::kNumpyScalar:
      add({value.bytes, value.size});
      break;
    case PickleKind::kNumpyArray:
      add(value.array->data);
      break;
    case PickleKind::kList:
    case PickleKind::kTuple:
    case PickleKind::kDict:
      for (const PickleRun* run = &value.items->first; run != nullptr; run = run->next) {
        for (std::uint64_t i = 0; i < run->size; ++i) {
          if (run->form == PickleRun::Form::kValues) sum += Touch(run->values[i], depth + 1);
          if (run->form == PickleRun::Form::kFloats) sum += run->Float(i) > 0 ? 1 : 0;
        }
      }
      break;
    default:
      break;
  }
  return sum;
}

TEST_F(PickleReaderTest, FlippedBitsNeverLeadOutside) {
  const std::string whole = Everything();
  std::vector<char> flipped(whole.begin(), whole.end());
  std::uint64_t sum = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    if (const auto value = reader_.Read(std::as_bytes(std::span(flipped)))) sum += Touch(*value);
    reader_.Reset();
    flipped[bit / 8] = whole[bit / 8];
  }
  EXPECT_GT(sum, 0U);
}

TEST_F(PickleReaderTest, MemoryIsUsedAgain) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Read(Everything()));
    reader_.Reset();
  }
}

}  // namespace
}  // namespace tfos::columns
