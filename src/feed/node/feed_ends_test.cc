// How a feed ends, early or late, and how feeders and nodes learn of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "feed/node/feed_transport_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_P(FeedTransportTest, EndFeedLetsOpenPartitionsFinish) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain, 0);
  Opened waiting_opened;
  std::thread waiting([&] {
    std::unique_ptr<FeedClient> other = Connect();
    const Result<Opened> opened = other->Open({.key = {.partition = 1}});
    ASSERT_TRUE(opened.ok());
    waiting_opened = *opened;
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 2; }));
  server_->EndFeed();
  waiting.join();
  EXPECT_TRUE(waiting_opened.feed_over) << "it was not given memory yet";
  ASSERT_TRUE(Put(*client, "late").ok());
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_EQ(TakeText(), "late");
  EXPECT_EQ(TakeText(), "over");
  std::unique_ptr<FeedClient> too_late = Connect();
  const Result<Opened> opened = too_late->Open({});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->feed_over);
  EXPECT_TRUE(too_late->stopped());
}

TEST_P(FeedTransportTest, TerminateStopsFeedersThatWaitAndThoseThatCome) {
  StartServer(SmallMemory(1));
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (!client->stopped()) {
      ASSERT_TRUE(Put(*client, std::string(20'000, 'x')).ok());
    }
    const Result<std::span<std::byte>> room = client->Reserve(10);
    ASSERT_TRUE(room.ok());
    EXPECT_TRUE(room->empty());
    EXPECT_TRUE(client->Commit(10, {0, 1}).ok());
    const Result<Ended> ended = client->Finish();
    ASSERT_TRUE(ended.ok());
    EXPECT_TRUE(ended->stopped);
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_->Terminate();
  feeder.join();
  EXPECT_TRUE(server_->terminated());
  EXPECT_EQ(TakeText(), "over");
  EXPECT_EQ(server_->counters().queued_bytes, 0u);
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
  std::unique_ptr<FeedClient> late = Connect();
  const Result<Opened> opened = late->Open({});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->feed_over);
}

TEST_P(FeedTransportTest, AFailureReachesFeedersThatWaitAndThoseThatCome) {
  StartServer(SmallMemory(1));
  Status seen;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (seen.ok()) seen = Put(*client, std::string(20'000, 'x'));
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_->Fail("Traceback: ValueError");
  feeder.join();
  EXPECT_EQ(seen.ToString(), "node 3 on host 127.0.0.1: Traceback: ValueError");
  std::unique_ptr<FeedClient> late = Connect();
  EXPECT_THAT(late->Open({}).status().ToString(), HasSubstr("ValueError"));
  EXPECT_EQ(TakeText(), "over");
}

TEST_P(FeedTransportTest, AFailureIsDeliveredEvenIfTheNodeClosesAtOnce) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "unread").ok());
  server_->Fail("Traceback: ValueError");
  server_.reset();
  const Result<Ended> ended = client->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.status().ToString(), HasSubstr("ValueError"));
}

TEST_P(FeedTransportTest, AFeederThatWaitsSeesTheNodeGo) {
  StartServer(SmallMemory(1));
  Status seen;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (seen.ok()) seen = Put(*client, std::string(20'000, 'x'));
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_.reset();
  feeder.join();
  EXPECT_EQ(seen.kind(), ErrorKind::kReconnect);
  EXPECT_THAT(seen.ToString(), HasSubstr("node 3 on host 127.0.0.1 closed the feed connection"));
}

TEST_P(FeedTransportTest, NoProgressSaysWhichSideIsIdle) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain, 0, {.progress_timeout = 50ms});
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion, 'x')).ok());
  const Status status = client->Reserve(1).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(status.ToString(),
            "node 3 on host 127.0.0.1 took no chunk for 0.05 s (it holds 1 chunk of this feeder). "
            "Its program is busy or stuck: look at the node's log, or raise feed_timeout if a step "
            "takes that long");
}

TEST_P(FeedTransportTest, TheInterruptCheckEndsEveryWait) {
  StartServer(SmallMemory(1));
  const Status cancelled(ErrorKind::kBadInput, "the task was cancelled");
  std::unique_ptr<FeedClient> client =
      Open(Mode::kTrain, 0, {.progress_timeout = kLong, .check = [&] { return cancelled; }});
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion, 'x')).ok());
  EXPECT_EQ(client->Reserve(1).status().ToString(), cancelled.ToString());
  TakeText();
  const Result<Next> next = server_->Next(
      "input", {.deadline = Deadline::After(kLong), .check = [&] { return cancelled; }});
  EXPECT_EQ(next.status().ToString(), cancelled.ToString());
}

// A process of its own, so that it can be killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) Kill();
  }
  void Kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_;
};

// Covers: feeding task killed / feeding
TEST_P(FeedTransportTest, AKilledFeederHarmsNobody) {
  // Forked before the server has a thread: the child connects to what it reads from the pipe.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Channel channel = GetParam();
  Child feeder([&] {
    ::close(ends[1]);
    char name[108] = {};
    std::uint16_t port = 0;
    if (::read(ends[0], &port, sizeof(port)) != sizeof(port)) return;
    if (::read(ends[0], name, sizeof(name)) < 0) return;
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        {.unix_name = channel != Channel::kMemory ? "" : name,
         .host = "127.0.0.1",
         .port = port,
         .node_id = 3},
        key_, {.progress_timeout = kLong, .encryption = EncryptionOf(GetParam())},
        Deadline::After(kLong));
    if (!client.ok() || !(*client)->Open({.key = {.partition = 8}}).ok()) return;
    std::uint64_t first = 0;
    while (Put(**client, std::string(3'000, 'k'), 10, first).ok()) first += 10;
  });
  ::close(ends[0]);
  StartServer(SmallMemory(1));
  const Endpoint endpoint = server_->endpoint();
  ASSERT_EQ(::write(ends[1], &endpoint.port, sizeof(endpoint.port)), 2);
  ASSERT_GT(::write(ends[1], endpoint.unix_name.data(), endpoint.unix_name.size()), 0);
  ::close(ends[1]);

  for (int i = 0; i < 100; ++i) ASSERT_EQ(TakeText(), std::string(3'000, 'k'));
  feeder.Kill();
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 0; }));

  std::unique_ptr<FeedClient> retry = Connect();
  const Result<Counted> accepted = retry->Count({.partition = 8}, 1);
  ASSERT_TRUE(accepted.ok()) << accepted.status().DebugString();
  EXPECT_THAT(RangesOf(*accepted), ElementsAre(ItemRange{0, server_->counters().items}));
  std::thread reopen([&] {
    const Result<Opened> opened = retry->Open({.key = {.partition = 8}, .attempt = 1});
    ASSERT_TRUE(opened.ok()) << opened.status().DebugString();
  });
  // Its region comes back once its last chunks are consumed.
  while (server_->counters().queued_chunks > 0) ASSERT_EQ(TakeText(), std::string(3'000, 'k'));
  reopen.join();
  ASSERT_TRUE(Put(*retry, "again").ok());
  EXPECT_EQ(TakeText(), "again");
}

// Covers: node killed / feeding
TEST_P(FeedTransportTest, AKilledNodeIsSeenAtOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child node([&] {
    ::close(ends[0]);
    StartServer(SmallMemory(1));
    const Endpoint endpoint = server_->endpoint();
    if (::write(ends[1], &endpoint.port, sizeof(endpoint.port)) < 0) return;
    if (::write(ends[1], endpoint.unix_name.data(), endpoint.unix_name.size()) < 0) return;
    ::close(ends[1]);
    ::pause();
  });
  ::close(ends[1]);
  std::uint16_t port = 0;
  char name[108] = {};
  ASSERT_EQ(::read(ends[0], &port, sizeof(port)), 2);
  ASSERT_GT(::read(ends[0], name, sizeof(name)), 0);
  ::close(ends[0]);
  Result<std::unique_ptr<FeedClient>> client =
      FeedClient::Connect({.unix_name = GetParam() != Channel::kMemory ? "" : name,
                           .host = "127.0.0.1",
                           .port = port,
                           .node_id = 3},
                          key_, {.progress_timeout = kLong, .encryption = EncryptionOf(GetParam())},
                          Deadline::After(kLong));
  ASSERT_TRUE(client.ok()) << client.status().DebugString();
  ASSERT_TRUE((*client)->Open({}).ok());
  ASSERT_TRUE(Put(**client, "row").ok());
  node.Kill();
  const Result<Ended> ended = (*client)->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kReconnect);
  EXPECT_THAT(ended.status().ToString(), HasSubstr("node 3 on host 127.0.0.1 closed"));
}

}  // namespace
}  // namespace tfos::feed
