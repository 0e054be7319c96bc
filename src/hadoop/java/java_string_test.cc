#include "hadoop/java/java_string.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tfos::hadoop {
namespace {

TEST(JavaStringTest, GoesThereAndBack) {
  for (const std::string text : {"", "plain", "\xC3\xA9t\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC",
                                 "a\xF0\x9F\x98\x80z", "\xF4\x8F\xBF\xBF"}) {
    const auto units = ToUtf16(text);
    ASSERT_TRUE(units.ok());
    EXPECT_EQ(ToUtf8(units.value()), text);
  }
  EXPECT_EQ(ToUtf16("\xF0\x9F\x98\x80").value(), u"\U0001F600");
}

TEST(JavaStringTest, RefusesWhatIsNotUtf8) {
  for (const char* text : {"\xFF", "\xC3", "\xED\xA0\x80"}) {
    EXPECT_EQ(ToUtf16(text).status().code().value(), EINVAL);
  }
}

TEST(JavaStringTest, ReplacesHalfACharacter) {
  EXPECT_EQ(ToUtf8(std::u16string{u'a', char16_t{0xD83D}}), "a\xEF\xBF\xBD");
  EXPECT_EQ(ToUtf8(std::u16string{char16_t{0xDE00}, u'a'}),
            "\xEF\xBF\xBD"
            "a");
}

}  // namespace
}  // namespace tfos::hadoop
