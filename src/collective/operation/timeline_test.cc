#include "collective/operation/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collective/test_members.h"

namespace tfos::collective {
namespace {

using ::testing::HasSubstr;

/// Fails the test if the file isn't JSON.
nlohmann::json Read(const std::string& path) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << text;
  return parsed;
}

std::string PathOf(std::uint32_t rank) {
  return (std::filesystem::path(::testing::TempDir()) /
          fmt::format("timeline-{}-{}.json", ::getpid(), rank))
      .string();
}

TEST(TimelineTest, IsCompleteAfterEveryEvent) {
  const std::string path = PathOf(7);
  auto timeline = Timeline::Create(path, "worker:1 on \"host\"\\\n", 7, "tcp");
  ASSERT_TRUE(timeline.ok()) << timeline.status().ToString();
  EXPECT_EQ(Read(path)["traceEvents"][1]["args"]["labels"], "tcp");
  EXPECT_EQ(Read(path)["traceEvents"][0]["args"]["name"], "worker:1 on \"host\"\\\n");
  for (std::uint64_t number = 0; number < 3; ++number) {
    (*timeline)->Add({.operation = {.number = number, .name = "gradients"},
                      .bytes = 40,
                      .begin = {},
                      .duration = std::chrono::microseconds(10),
                      .waited = std::chrono::microseconds(4)});
    const nlohmann::json events = Read(path)["traceEvents"];
    ASSERT_EQ(events.size(), 2 + 2 * (number + 1));
    const nlohmann::json& last = events[2 * number + 2];
    EXPECT_EQ(last["args"]["operation"], number);
    EXPECT_EQ(last["args"]["wait_us"], 4);
    EXPECT_EQ(last["args"]["transfer_us"], 6);
    EXPECT_EQ(last["dur"], 10);
  }
  std::filesystem::remove(path);
}

TEST(TimelineTest, WhatOthersHavePutThereIsReplaced) {
  const std::string path = PathOf(9);
  const std::string victim = PathOf(10);
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, path);
  ASSERT_TRUE(Timeline::Create(path, "worker:1", 9, "tcp").ok());
  EXPECT_EQ(std::filesystem::file_size(victim), 8U) << "a link is not followed";
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  // Nor is a file of others written to, which they may have open.
  std::filesystem::remove(path);
  std::filesystem::create_hard_link(victim, path);
  ASSERT_TRUE(Timeline::Create(path, "worker:1", 9, "tcp").ok());
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
  // What can't be replaced is said.
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const auto refused = Timeline::Create(path, "worker:1", 9, "tcp");
  EXPECT_THAT(refused.status().ToString(), HasSubstr(path));
  std::filesystem::remove(path);
  std::filesystem::remove(victim);
}

TEST(TimelineTest, HasTheOperationsOfAGroup) {
  for (const Transport transport : {Transport::kTcp, Transport::kSharedMemory}) {
    std::vector<GroupOptions> options = MakeMembers(2, transport);
    for (GroupOptions& one : options) one.timeline = PathOf(one.rank);
    RunMembers(std::move(options), [](Group& group) {
      std::vector<float> values(100'000);
      const auto bytes = std::as_writable_bytes(std::span(values));
      ASSERT_TRUE(group.AllReduce(DType::kFloat32, bytes, "gradients").ok());
      ASSERT_TRUE(group.Barrier("done").ok());
    });
    for (const std::uint32_t rank : {0u, 1u}) {
      const nlohmann::json trace = Read(PathOf(rank));
      std::vector<std::string> names;
      for (const nlohmann::json& event : trace["traceEvents"]) {
        if (!event.contains("args") || !event["args"].contains("bytes")) continue;
        names.push_back(event["name"]);
        EXPECT_EQ(event["pid"], rank);
        EXPECT_EQ(event["args"]["bytes"], names.size() == 1 ? 400'000 : 0);
        EXPECT_LE(event["args"]["wait_us"], event["dur"]);
      }
      ASSERT_EQ(names.size(), 2);
      EXPECT_THAT(names[0], HasSubstr("all_reduce \"gradients\" of float32[100000]"));
      EXPECT_THAT(names[1], HasSubstr("barrier \"done\""));
      std::filesystem::remove(PathOf(rank));
    }
  }
}

TEST(TimelineTest, AFileThatCantBeWrittenIsAnError) {
  const auto timeline = Timeline::Create("/nowhere/at/all.json", "worker:0", 0, "tcp");
  ASSERT_FALSE(timeline.ok());
  EXPECT_THAT(timeline.status().ToString(), HasSubstr("/nowhere/at/all.json"));
}

}  // namespace
}  // namespace tfos::collective
