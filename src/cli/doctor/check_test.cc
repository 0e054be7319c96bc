#include "cli/doctor/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos::cli {
namespace {

const std::vector<Check> kChecks = {
    {CheckLevel::kOk, "Java", "17", ""},
    {CheckLevel::kWarn, "TensorFlow", "2.9", "upgrade"},
    {CheckLevel::kFail, "numpy", "not \"installed\"", "pip install numpy"},
};

TEST(CheckTest, TextNamesLevelFindingAndAdvice) {
  EXPECT_EQ(FormatAsText(kChecks),
            "ok    Java: 17\n"
            "WARN  TensorFlow: 2.9 - upgrade\n"
            "FAIL  numpy: not \"installed\" - pip install numpy\n");
}

TEST(CheckTest, JsonComesBackAsItWas) {
  const auto parsed = ParseChecks(FormatAsJson(kChecks));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed.value(), kChecks);
}

TEST(CheckTest, JsonSurvivesBytesThatAreNotUtf8) {
  const auto parsed = ParseChecks(FormatAsJson({{CheckLevel::kOk, "kernel", "\xff\xfe", ""}}));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->size(), 1u);
}

TEST(CheckTest, RefusesWhatIsNotAListOfChecks) {
  for (const char* text : {"", "{}", "[1]", "[{\"level\":\"ok\"}]", "[",
                           R"([{"level":"great","what":"a","found":"b","advice":""}])",
                           R"([{"level":"ok","what":1,"found":"b","advice":""}])"}) {
    EXPECT_FALSE(ParseChecks(text).ok()) << text;
  }
}

TEST(CheckTest, OnlyAFailureFailsTheReport) {
  EXPECT_TRUE(AnyFailed(kChecks));
  EXPECT_FALSE(AnyFailed({kChecks[0], kChecks[1]}));
  EXPECT_FALSE(AnyFailed({}));
}

}  // namespace
}  // namespace tfos::cli
