#include "net/resolve.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "net/listen.h"
#include "net/socket.h"
#include "testing/no_threads.h"

namespace tfos::net {
namespace {

using ::testing::HasSubstr;

/// A name server that answers when the test lets it.
struct SlowServer {
  Mutex mutex;
  CondVar changed;
  bool may_answer TFOS_GUARDED_BY(mutex) = false;
  int answered TFOS_GUARDED_BY(mutex) = 0;
};

SlowServer& Slow() {
  static auto& server = *new SlowServer;  // outlives the threads that are left behind
  return server;
}

int AskSlowServer(const char*, const char* port, const addrinfo* hints, addrinfo** list) {
  SlowServer& server = Slow();
  const MutexLock lock(server.mutex);
  while (!server.may_answer) server.changed.Wait(server.mutex);
  ++server.answered;
  server.changed.NotifyAll();
  return ::getaddrinfo("127.0.0.1", port, hints, list);
}

/// Also when the tests are repeated in one process.
void MakeItSlow() {
  SlowServer& server = Slow();
  const MutexLock lock(server.mutex);
  server.may_answer = false;
  server.answered = 0;
}

void LetItAnswer(int times) {
  SlowServer& server = Slow();
  const MutexLock lock(server.mutex);
  server.may_answer = true;
  server.changed.NotifyAll();
  while (server.answered < times) server.changed.Wait(server.mutex);
}

int KnowsNobody(const char*, const char*, const addrinfo*, addrinfo**) { return EAI_NONAME; }
int KnowsNoAddress(const char*, const char*, const addrinfo*, addrinfo**) { return EAI_NODATA; }
int CannotSayNow(const char*, const char*, const addrinfo*, addrinfo**) { return EAI_AGAIN; }

TEST(ResolveTest, ANumberNeedsNoNameServer) {
  const Result<Addresses> four = Resolve("127.0.0.1", 80, {}, KnowsNobody);
  ASSERT_TRUE(four.ok()) << four.status().ToString();
  EXPECT_EQ((*four)->ai_family, AF_INET);
  const Result<Addresses> six = Resolve("::1", 80, {}, KnowsNobody);
  ASSERT_TRUE(six.ok()) << six.status().ToString();
  EXPECT_EQ((*six)->ai_family, AF_INET6);
}

TEST(ResolveTest, AnUnknownNameIsThatOfAHostThatIsGone) {
  for (const Lookup lookup : {KnowsNobody, KnowsNoAddress}) {
    const Result<Addresses> nobody = Resolve("nobody.example", 80, {}, lookup);
    ASSERT_FALSE(nobody.ok());
    EXPECT_EQ(nobody.status().kind(), ErrorKind::kReconnect);
    EXPECT_THAT(nobody.status().ToString(), HasSubstr("look up host nobody.example"));
  }
}

TEST(ResolveTest, AHostThatTheNameServerCannotTellNowMayBeThere) {
  const Result<Addresses> unclear = Resolve("somebody.example", 80, {}, CannotSayNow);
  ASSERT_FALSE(unclear.ok());
  EXPECT_EQ(unclear.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(unclear.status().ToString(), HasSubstr("look up host somebody.example"));
}

TEST(ResolveTest, WithoutAThreadToSpareItIsTriedAgain) {
  const tfos::testing::NoThreads none;
  const Result<Addresses> unasked = Resolve("somebody.example", 80, {}, CannotSayNow);
  ASSERT_FALSE(unasked.ok());
  EXPECT_EQ(unasked.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(unasked.status().ToString(), HasSubstr("start the thread 'tfos-resolve'"));
}

TEST(ResolveTest, ANameServerThatDoesNotAnswerHoldsNobody) {
  MakeItSlow();
  const Wait past{.deadline = Deadline::After(std::chrono::milliseconds(10))};
  const Result<Addresses> late = Resolve("slow.example", 80, past, AskSlowServer);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(late.status().ToString(), HasSubstr("look up host slow.example"));

  const Wait interrupted{.check = [] { return Status(ErrorKind::kBug, "interrupted"); }};
  const Result<Addresses> ended = Resolve("slow.example", 80, interrupted, AskSlowServer);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kBug);

  // Both threads that were left behind end with their answers.
  LetItAnswer(2);
  const Result<Addresses> answer = Resolve("slow.example", 80, {}, AskSlowServer);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ((*answer)->ai_family, AF_INET);
}

int KnowsTwoAddresses(const char*, const char* port, const addrinfo* hints, addrinfo** list) {
  const int first = ::getaddrinfo("127.0.0.9", port, hints, list);
  return first != 0 ? first : ::getaddrinfo("127.0.0.1", port, hints, &(*list)->ai_next);
}

TEST(ConnectTcpTest, AnAddressThatDoesNotAnswerLeavesTimeForTheNextOne) {
  const auto there = ListenTcp("127.0.0.1", 0, 0);
  ASSERT_TRUE(there.ok()) << there.status().ToString();
  const auto full = ListenTcp("127.0.0.9", there->port, there->port);
  ASSERT_TRUE(full.ok()) << full.status().ToString();
  ASSERT_EQ(::listen(full->fd.get(), 0), 0);
  // The kernel drops new connections while the queue is full.
  std::vector<UniqueFd> queue;
  const auto address = NumericAddress("127.0.0.9", there->port);
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(queue.back().get(), (*address)->ai_addr, (*address)->ai_addrlen);
  }
  const Wait wait{.deadline = Deadline::After(std::chrono::seconds(4))};
  const auto connected = ConnectTcp("two.example", there->port, wait, {}, KnowsTwoAddresses);
  ASSERT_TRUE(connected.ok()) << connected.status().ToString();
  sockaddr_in peer{};
  socklen_t size = sizeof(peer);
  ASSERT_EQ(::getpeername(connected->get(), reinterpret_cast<sockaddr*>(&peer), &size), 0);
  EXPECT_EQ(ntohl(peer.sin_addr.s_addr), INADDR_LOOPBACK);
}

}  // namespace
}  // namespace tfos::net
