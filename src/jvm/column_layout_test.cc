#include "jvm/column_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tfos::jvm {
namespace {

using testing::ElementsAre;

constexpr std::int32_t kOffsets[] = {0, 2, 2};
constexpr float kFloats[] = {0.5F, 1.5F};
constexpr std::uint8_t kValid = 0b01;

std::int64_t AddressOf(const void* memory) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory));
}

arrow::Field Leaf(std::string name, std::string format) {
  return {.name = std::move(name),
          .format = std::move(format),
          .buffers = {},
          .memory = {},
          .children = {}};
}

/// struct<lists: list<float>>: [0.5, 1.5] and null.
arrow::Field Table() {
  arrow::Field item = Leaf("item", "f");
  item.nullable = false;
  item.length = 2;
  item.buffers = {nullptr, kFloats};
  arrow::Field list = Leaf("lists", "+l");
  list.length = 2;
  list.nulls = 1;
  list.buffers = {&kValid, kOffsets};
  list.children = {item};
  arrow::Field table = Leaf("", "+s");
  table.length = 2;
  table.buffers = {nullptr};
  table.children = {list};
  return table;
}

TEST(ColumnLayout, TypesCrossAsJson) {
  const arrow::Field type = TypeFromJson(nlohmann::json::parse(TypeToJson(Table()).dump()));
  EXPECT_EQ(type.format, "+s");
  ASSERT_EQ(type.children.size(), 1U);
  const arrow::Field& list = type.children[0];
  EXPECT_EQ(list.name, "lists");
  EXPECT_EQ(list.format, "+l");
  EXPECT_TRUE(list.nullable);
  ASSERT_EQ(list.children.size(), 1U);
  EXPECT_EQ(list.children[0].format, "f");
  EXPECT_FALSE(list.children[0].nullable);
  EXPECT_TRUE(list.children[0].buffers.empty()) << "a type has no values";
}

TEST(ColumnLayout, ValuesCrossAsNumbersInTheOrderOfFields) {
  EXPECT_THAT(NumbersOf(Table()), ElementsAre(2, 0, 1, 0,                                        //
                                              2, 1, 2, AddressOf(&kValid), AddressOf(kOffsets),  //
                                              2, 0, 2, 0, AddressOf(kFloats)));
}

TEST(ColumnLayout, NumbersBecomeTheSameValues) {
  const auto values = ValuesFrom(TypeFromJson(TypeToJson(Table())), NumbersOf(Table()));
  ASSERT_TRUE(values.ok()) << values.status().ToString();
  EXPECT_EQ(NumbersOf(*values), NumbersOf(Table()));
  EXPECT_EQ(values->children[0].children[0].buffers[1], kFloats);
}

TEST(ColumnLayout, NumbersOfAnotherTypeAreRefused) {
  const std::vector<std::int64_t> whole = NumbersOf(Table());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ValuesFrom(Table(), std::span(whole).first(size)).ok()) << size;
  }
  std::vector<std::int64_t> longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(ValuesFrom(Table(), longer).ok());
  for (const std::size_t position : {0, 1, 2}) {
    std::vector<std::int64_t> negative = whole;
    negative[position] = -1;
    const auto values = ValuesFrom(Table(), negative);
    ASSERT_FALSE(values.ok()) << position;
    EXPECT_EQ(values.status().kind(), ErrorKind::kBug);
  }
}

}  // namespace
}  // namespace tfos::jvm
