#include "base/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tfos {
namespace {

TEST(Utf8Test, WhatIsOne) {
  for (const char* text : {"", "a", "eight by eight, and some more", "\xC2\x80", "\xDF\xBF",
                           "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "12345678\xC3\xA4"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(std::string(20, '\0')));
}

TEST(Utf8Test, WhatIsNone) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF", "12345678\xE4", "\xF0\x90\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace tfos
