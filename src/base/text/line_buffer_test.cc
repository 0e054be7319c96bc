#include "base/text/line_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tfos {
namespace {

std::vector<std::string> Drain(LineBuffer& buffer) {
  std::vector<std::string> lines;
  while (true) {
    auto line = buffer.NextLine();
    EXPECT_TRUE(line.ok()) << line.status().ToString();
    if (!line.ok() || !line->has_value()) return lines;
    lines.push_back(**line);
  }
}

TEST(LineBufferTest, LinesComeOutHoweverTheBytesArriveInPieces) {
  const std::string stream = "one\n\nthree and more\nrest";
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    LineBuffer buffer(100);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      buffer.Append(std::string_view(stream).substr(at, piece));
      for (std::string& line : Drain(buffer)) lines.push_back(line);
    }
    EXPECT_THAT(lines, testing::ElementsAre("one", "", "three and more")) << piece;
    EXPECT_EQ(buffer.TakeRaw(100), "rest");
  }
}

TEST(LineBufferTest, ALineAtTheLimitPassesAndOneByteMoreFails) {
  LineBuffer buffer(4);
  buffer.Append("1234\n12345");
  EXPECT_EQ(**buffer.NextLine(), "1234");
  EXPECT_EQ(buffer.NextLine().status().kind(), ErrorKind::kBadInput);
  buffer.Append("\n1\n");
  EXPECT_FALSE(buffer.NextLine().ok());
}

TEST(LineBufferTest, RawBytesMayFollowALine) {
  LineBuffer buffer(100);
  buffer.Append("head\n\n\nraw");
  EXPECT_EQ(**buffer.NextLine(), "head");
  EXPECT_EQ(buffer.TakeRaw(4), "\n\nra");
  EXPECT_EQ(buffer.TakeRaw(10), "w");
  EXPECT_EQ(buffer.TakeRaw(10), "");
  buffer.Append("tail\n");
  EXPECT_EQ(**buffer.NextLine(), "tail");
}

}  // namespace
}  // namespace tfos
