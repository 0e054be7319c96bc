#include "cli/operate/cluster_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "base/format.h"
#include "net/listen.h"

namespace tfos::cli {
namespace {

using control::Door;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kKey(64, 'a');

control::ClusterRecord Record(const std::string& id, const std::string& name) {
  return {.cluster_id = id,
          .name = name,
          .endpoint = {.address = "127.0.0.1", .port = 41234},
          .encrypt = "true",
          .key = *Secret::FromHex(kKey),
          .driver_pid = 12};
}

TEST(ClusterAccessTest, TheOnlyClusterNeedsNoName) {
  const control::FoundClusters found = {.clusters = {Record("abc", "app")}};
  for (const std::string name : {"", "a", "abc", "app"}) {
    const auto cluster = ClusterAccess::Choose(found, {.name = name});
    ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();
    EXPECT_EQ(cluster->address().host, "127.0.0.1");
    EXPECT_EQ(cluster->address().port, 41234);
    EXPECT_EQ(cluster->address().encryption, net::Encryption::kAlways);
    EXPECT_EQ(cluster->address().door, Door::kOperate);
    EXPECT_EQ(cluster->label(), "abc");
    EXPECT_EQ(cluster->driver_pid(), 12);
  }
  const auto other = ClusterAccess::Choose(found, {.name = "ap"});
  EXPECT_EQ(ExitCodeOf(other.status()), kUsage);
  EXPECT_THAT(other.status().ToString(), AllOf(HasSubstr("'ap'"), HasSubstr("abc  app")));
}

TEST(ClusterAccessTest, SeveralAreListed) {
  const control::FoundClusters found = {
      .clusters = {Record("abc", "one"), Record("abd", "two"), Record("xyz", "two")}};
  EXPECT_EQ(ClusterAccess::Choose(found, {.name = "one"})->label(), "abc");
  EXPECT_EQ(ClusterAccess::Choose(found, {.name = "x"})->label(), "xyz");
  const auto all = ClusterAccess::Choose(found, {});
  EXPECT_EQ(ExitCodeOf(all.status()), kUsage);
  EXPECT_THAT(all.status().ToString(),
              AllOf(HasSubstr("abc  one"), HasSubstr("abd  two"), HasSubstr("xyz  two"),
                    HasSubstr("driver process 12"), Not(HasSubstr(kKey))));
  EXPECT_THAT(ClusterAccess::Choose(found, {.name = "two"}).status().ToString(),
              HasSubstr("2 of your clusters"));
}

TEST(ClusterAccessTest, OfSeveralItSaysHowToChooseWithThisCommand) {
  const control::FoundClusters found = {
      .clusters = {Record("abc", "one"), Record("abd", "two"), Record("xyz", "two")}};
  CLI::App app;
  const auto said = [&](const char* command, bool as_argument, const std::string& name) {
    const auto choice = std::make_shared<ClusterChoice>();
    AddClusterChoice(*app.add_subcommand(command), choice, as_argument);
    choice->name = name;
    return ClusterAccess::Choose(found, *choice).status().ToString();
  };
  EXPECT_THAT(
      said("logs", false, ""),
      HasSubstr("`tfos logs NODE --cluster CLUSTER`, where CLUSTER is how its id begins, or "
                "its application's name:"));
  EXPECT_THAT(said("status", true, ""), HasSubstr("`tfos status CLUSTER`, where"));
  EXPECT_THAT(said("stop", true, "two"), AllOf(HasSubstr("2 of your clusters run on this host as "
                                                         "'two'"),
                                               HasSubstr("is how its id begins:\n")))
      << "both have this name";
}

TEST(ClusterAccessTest, WithoutAClusterItSaysWhatWasNotLookedAt) {
  const auto none = ClusterAccess::Choose({.refused = {"/tmp/x is a link"}, .dead = {"abc"}}, {});
  EXPECT_EQ(ExitCodeOf(none.status()), kFailed);
  EXPECT_THAT(none.status().ToString(),
              AllOf(HasSubstr("none of your clusters"), HasSubstr("/tmp/x is a link"),
                    HasSubstr("the coordinator of abc was killed")));
}

TEST(ClusterAccessTest, ALinkSaysWhatItOpens) {
  const auto page = ClusterAccess::FromLink("http://10.0.0.5:41234/#key=" + kKey);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->address().host, "10.0.0.5");
  EXPECT_EQ(page->address().port, 41234);
  EXPECT_EQ(page->address().key.ToHex(), kKey);
  EXPECT_EQ(page->address().door, Door::kRead);
  EXPECT_THAT(page->Post("/v1/stop", std::chrono::seconds(1)).status().ToString(),
              HasSubstr("is for reading only"));
  const auto all = ClusterAccess::FromLink(" tfos://[fe80::1]:1/#key=" + kKey + "\r");
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(all->address().host, "fe80::1");
  EXPECT_EQ(all->address().door, Door::kOperate);
  EXPECT_TRUE(ClusterAccess::FromLink("http://proxy:80/proxy/app/#key=" + kKey).ok());
}

TEST(ClusterAccessTest, AWrongLinkIsNotRepeated) {
  for (const std::string link : {"", "worker:0", "https://h:1/#key=", "http://h:1/",
                                 "http://h/#key=", "http://h:1/#key=00"}) {
    const auto wrong = ClusterAccess::FromLink(link.ends_with("h/#key=") ? link + kKey : link);
    ASSERT_FALSE(wrong.ok()) << link;
    EXPECT_EQ(ExitCodeOf(wrong.status()), kUsage);
    EXPECT_THAT(wrong.status().ToString(),
                AllOf(HasSubstr("Expected http://HOST:PORT/#key=KEY"), Not(HasSubstr(kKey))));
  }
  // Any bytes are read.
  const std::string link = "tfos://host-a:41234/#key=" + kKey;
  for (std::size_t bit = 0; bit < link.size() * 8; ++bit) {
    std::string flipped = link;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto read = ClusterAccess::FromLink(flipped);
    if (!read.ok()) {
      EXPECT_THAT(read.status().ToString(), Not(HasSubstr("aaaaaaaa")));
    }
  }
}

TEST(ClusterAccessTest, OnlyOneThatNobodyListensForHasEnded) {
  auto listener = net::ListenTcp("127.0.0.1", 0, 0);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  const auto cluster =
      ClusterAccess::FromLink(fmt::format("tfos://127.0.0.1:{}/#key={}", listener->port, kKey));
  ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();
  const std::chrono::milliseconds patience(50);
  const Status cut = Status::FromErrno(ECONNRESET, "read the answer").Annotate("ask");
  const Status unreachable = Status::FromErrno(EHOSTUNREACH, "connect").Annotate("ask");
  const Status refused = Status::FromErrno(ECONNREFUSED, "connect").Annotate("ask");
  // Somebody listens there, though nobody answers.
  EXPECT_FALSE(cluster->HasEnded(cut, patience));
  EXPECT_FALSE(cluster->HasEnded(unreachable, patience));
  EXPECT_TRUE(cluster->HasEnded(refused, patience));
  listener->fd.Reset();
  EXPECT_TRUE(cluster->HasEnded(cut));
  EXPECT_TRUE(cluster->HasEnded(unreachable));
  EXPECT_FALSE(cluster->HasEnded(Status(ErrorKind::kBadInput, "the key is wrong")));
}

}  // namespace
}  // namespace tfos::cli
