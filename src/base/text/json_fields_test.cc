#include "base/text/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tfos {
namespace fields_test {

struct Point {
  int x = 0;
  std::optional<double> weight;
};

struct Shape {
  std::string name;
  std::string path;
  bool closed = false;
  std::chrono::milliseconds age{0};
  std::vector<Point> points;
  std::map<std::string, std::int64_t> sizes;
};

template <typename Fields, DescribedAs<Point> M>
void Describe(Fields& fields, M& point) {
  fields.Required("x", point.x, JsonRange{0, 100});
  fields.Optional("weight", point.weight);
}

template <typename Fields, DescribedAs<Shape> M>
void Describe(Fields& fields, M& shape) {
  fields.Required("name", shape.name, JsonRange{0, 10});
  fields.RequiredBytes("path", shape.path);
  fields.Optional("closed", shape.closed);
  fields.Required("age_ms", shape.age);
  fields.Required("points", shape.points, JsonRange{.most_elements = 2});
  fields.Required("sizes", shape.sizes, kAnyInteger);
}

std::string ErrorOf(const std::string& text) {
  const Result<Json> json = ParseJsonObject(text, 1000, "it");
  if (!json.ok()) return json.status().message();
  Shape shape;
  return JsonValue<Shape>::Read(*json, shape, {});
}

std::string Filled(const std::string& x, const std::string& size = "1") {
  return R"({"name":"n","path":"p","age_ms":1,"points":[{"x":)" + x + R"(}],"sizes":{"a":)" + size +
         "}}";
}

TEST(JsonFieldsTest, ReadsWhatItWrites) {
  Shape shape;
  shape.name = "caf\u00e9";
  shape.path = "/\xff";
  shape.closed = true;
  shape.age = std::chrono::milliseconds(7);
  shape.points = {{.x = 1, .weight = 0.5}, {.x = 2, .weight = std::nullopt}};
  shape.sizes = {{"least", std::numeric_limits<std::int64_t>::min()}};
  const std::string text = WriteJsonLine(JsonValue<Shape>::Write(shape));
  const Result<Json> json = ParseJsonObject(text, 1000, "it");
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  Shape read;
  ASSERT_EQ(JsonValue<Shape>::Read(*json, read, {}), "");
  EXPECT_EQ(WriteJsonLine(JsonValue<Shape>::Write(read)), text);
  EXPECT_EQ(read.path, "/\xff");
  EXPECT_EQ(read.points[0].weight, 0.5);
  EXPECT_EQ(read.points[1].weight, std::nullopt);
}

TEST(JsonFieldsTest, NamesTheFirstFieldThatIsWrong) {
  EXPECT_EQ(ErrorOf(Filled("1")), "");
  EXPECT_EQ(ErrorOf("{}"), "is wrong: field 'name' is missing");
  EXPECT_EQ(
      ErrorOf(Filled("101")),
      "is wrong: field 'points' has an element that is wrong: field 'x' must be a whole number "
      "from 0 to 100");
  EXPECT_EQ(ErrorOf(Filled("1", "18446744073709551615")),
            "is wrong: field 'sizes' has an element that must be a whole number from "
            "-9223372036854775808 to 9223372036854775807");
}

TEST(JsonFieldsTest, TextsAndListsAreBounded) {
  EXPECT_EQ(ErrorOf(R"({"name":"0123456789x"})"), "is wrong: field 'name' must have 0 to 10 bytes");
  const auto with_points = [](const std::string& points) {
    return R"({"name":"0123456789","path":"p","age_ms":1,"points":[)" + points + R"(],"sizes":{}})";
  };
  EXPECT_EQ(ErrorOf(with_points(R"({"x":1},{"x":2})")), "");
  EXPECT_EQ(ErrorOf(with_points(R"({"x":1},{"x":2},{"x":3})")),
            "is wrong: field 'points' has too many elements: at most 2 may be there");
}

TEST(JsonFieldsTest, RefusesTextsThatAreNoObjectOrHaveNoBound) {
  EXPECT_EQ(ErrorOf("[1]"), "it is not a JSON object");
  EXPECT_EQ(ErrorOf("{"), "it is not a JSON object");
  EXPECT_EQ(ErrorOf(std::string(1001, ' ')), "it is longer than 1000 bytes");
  EXPECT_EQ(ErrorOf("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}"),
            "it is nested too deeply");
}

TEST(JsonFieldsTest, BytesAreCharactersUpToFf) {
  EXPECT_EQ(BytesOfText(TextOfBytes("\x01\x7f\x80\xff")), "\x01\x7f\x80\xff");
  EXPECT_EQ(BytesOfText("\u0100"), std::nullopt);
  EXPECT_EQ(BytesOfText(std::string_view("\0", 1)), std::nullopt);
}

}  // namespace fields_test
}  // namespace tfos
