#include "base/printable.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tfos {
namespace {

TEST(PrintableTest, ControlCharactersAreSpaces) {
  EXPECT_EQ(Printable("a\x1b[2Jb\r\n\tc\x7f"), "a [2Jb   c ");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a b");
  EXPECT_EQ(Printable("\u009b2J\u0080\u009f"), " 2J  ");
}

TEST(PrintableTest, OtherCharactersStay) {
  EXPECT_EQ(Printable("Z\u00fcrich \u00a0\u00bf \u20ac \U0001f600"),
            "Z\u00fcrich \u00a0\u00bf \u20ac \U0001f600");
  EXPECT_EQ(Printable("cut \xc2"), "cut \xc2");
  EXPECT_EQ(Printable(""), "");
}

TEST(PrintableTest, LinesStayWhereTheyAreWanted) {
  EXPECT_EQ(PrintableLines("a\x1b\nb\r\n"), "a \nb \n");
  EXPECT_EQ(PrintableLines("a\nb\n", "  "), "a\n  b\n  ");
  EXPECT_EQ(PrintableLines(""), "");
}

}  // namespace
}  // namespace tfos
