#include "base/profile/stack_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tfos {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::string_view kText =
    R"({"elapsed_us":1000,"samples":2,"frames":[{"name":"MainThread","file":"","line":0},)"
    R"({"name":"f","file":"a.py","line":3}],"calls":[-1,0,400,0,1,600],)"
    R"("cpu_seconds":{"MainThread":0.5},"counters":{"step":3.0}})";

TEST(StackProfileTest, ReadsWhatItWrites) {
  const auto profile = StackProfile::Parse(kText);
  ASSERT_TRUE(profile.ok()) << profile.status().ToString();
  EXPECT_EQ(profile->elapsed_us, 1000);
  EXPECT_EQ(profile->samples, 2);
  EXPECT_EQ(profile->frames[1], (StackProfile::Frame{"f", "a.py", 3}));
  EXPECT_EQ(profile->calls[1].parent, 0);
  EXPECT_EQ(profile->calls[1].own_us, 600);
  EXPECT_THAT(profile->cpu_seconds, ElementsAre(Pair("MainThread", 0.5)));
  const auto again = StackProfile::Parse(profile->Serialize());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->Serialize(), profile->Serialize());
}

TEST(StackProfileTest, WhatIsNoTreeIsRefused) {
  for (const std::string calls :
       {"[0,0,1]", "[-2,0,1]", "[-1,2,1]", "[-1,-1,1]", "[-1,0,-1]", "[-1,0]", "[1,0,1,-1,0,1]"}) {
    std::string text(kText);
    text.replace(text.find("[-1,0,400"), std::string_view("[-1,0,400,0,1,600]").size(), calls);
    const auto refused = StackProfile::Parse(text);
    ASSERT_FALSE(refused.ok()) << calls;
    EXPECT_EQ(refused.status().kind(), ErrorKind::kBadInput);
    EXPECT_THAT(refused.status().message(), HasSubstr("call"));
  }
}

TEST(StackProfileTest, AStackThatIsTooDeepIsRefused) {
  StackProfileBuilder builder;
  int call = builder.CallOf(-1, builder.FrameOf({.name = "MainThread", .file = ""}));
  for (int i = 0; i < StackProfile::kMostDepth; ++i) call = builder.CallOf(call, 0);
  EXPECT_TRUE(StackProfile::Parse(builder.profile().Serialize()).ok());
  builder.CallOf(call, 0);
  EXPECT_FALSE(StackProfile::Parse(builder.profile().Serialize()).ok());
}

TEST(StackProfileTest, FlippedBitsNeverCrashAndWhatIsTakenCanBeWritten) {
  const std::string text(kText);
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto profile = StackProfile::Parse(flipped);
    if (!profile.ok()) continue;
    EXPECT_TRUE(StackProfile::Parse(profile->Serialize()).ok());
    StackProfileBuilder builder;
    builder.Merge(*profile);
  }
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(StackProfile::Parse(std::string_view(text).substr(0, length)).ok());
  }
}

TEST(StackProfileTest, ProfilesAreMergedByWhatTheyName) {
  const auto part = StackProfile::Parse(kText);
  ASSERT_TRUE(part.ok());
  StackProfileBuilder builder;
  builder.Merge(*part);
  builder.Merge(*part);
  const StackProfile whole = builder.Take();
  EXPECT_EQ(whole.elapsed_us, 2000);
  EXPECT_EQ(whole.samples, 4);
  ASSERT_EQ(whole.calls.size(), 2u);
  EXPECT_EQ(whole.calls[0].own_us, 800);
  EXPECT_EQ(whole.calls[1].own_us, 1200);
  EXPECT_EQ(whole.counters.at("step"), 6.0);
  EXPECT_EQ(whole.cpu_seconds.at("MainThread"), 1.0);
}

TEST(StackProfileTest, WithoutRoomTimeCountsForTheCaller) {
  StackProfileBuilder builder(2, 2);
  const int thread = builder.CallOf(-1, builder.FrameOf({.name = "MainThread", .file = ""}));
  const int f = builder.CallOf(thread, builder.FrameOf({.name = "f", .file = "a.py", .line = 1}));
  EXPECT_EQ(builder.CallOf(f, builder.FrameOf({.name = "g", .file = "a.py", .line = 9})), f);
  EXPECT_EQ(builder.CallOf(f, 0), f);
  builder.AddTime(f, 7);
  EXPECT_EQ(builder.profile().calls[1].own_us, 7);
}

TEST(StackProfileTest, LongTextsAreCutBetweenCharacters) {
  StackProfileBuilder builder;
  std::string name;
  std::string file;
  for (int i = 0; i < 300; ++i) {
    name += "\u00e9";
    file += "\u20ac";
  }
  file += "end.py";
  builder.CallOf(-1, builder.FrameOf({.name = name + "x", .file = file, .line = 1}));
  const StackProfile::Frame& frame = builder.profile().frames[0];
  EXPECT_LE(frame.name.size(), StackProfile::kLongestText);
  EXPECT_LE(frame.file.size(), StackProfile::kLongestText);
  EXPECT_TRUE(frame.file.ends_with("end.py"));
  const auto read = StackProfile::Parse(builder.profile().Serialize());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->frames[0], frame);
}

TEST(StackProfileTest, TheLargestFitsItsBound) {
  StackProfileBuilder builder;
  int call = -1;
  for (int i = 0; i < static_cast<int>(StackProfile::kMostCalls) + 1; ++i) {
    const std::string text = std::to_string(i) + std::string(300, 'x');
    const int frame = builder.FrameOf({.name = text, .file = text, .line = 1 << 20});
    // Without room for more frames, calls of those that there are.
    const int known = i % static_cast<int>(StackProfile::kMostFrames);
    call = builder.CallOf(i % StackProfile::kMostDepth == 0 ? -1 : call, frame < 0 ? known : frame);
    builder.AddTime(call, 1'799'999'999);
  }
  ASSERT_EQ(builder.profile().calls.size(), StackProfile::kMostCalls);
  const std::string text = builder.profile().Serialize();
  EXPECT_LT(text.size(), StackProfile::kMostBytes);
  EXPECT_TRUE(StackProfile::Parse(text).ok());
}

}  // namespace
}  // namespace tfos
