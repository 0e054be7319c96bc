#include "control/agent/child/executor_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "control/host/streams/non_blocking_twin.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ExecutorLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    int fds[2];
    ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reader_.Reset(fds[0]);
    writer_.Reset(fds[1]);
    ::fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
  }

  ExecutorLog& Open(milliseconds patience) {
    auto twin = OpenNonBlockingTwin(writer_.get());
    EXPECT_TRUE(twin.ok());
    log_.emplace(io_.get_executor(), std::move(twin).value(), patience);
    return *log_;
  }

  /// Runs the log until it has nothing more to do; true when `write` came to its end.
  bool Run(std::function<asio::awaitable<void>()> write) {
    bool ended = false;
    asio::co_spawn(io_, std::move(write),
                   [&ended](const std::exception_ptr& thrown) { ended = thrown == nullptr; });
    io_.restart();
    io_.run();
    return ended;
  }

  std::string ReadAll() {
    std::string text;
    std::array<char, 65536> buffer;
    for (ssize_t got = 0; (got = ::read(reader_.get(), buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

  asio::io_context io_;
  UniqueFd reader_;
  UniqueFd writer_;
  std::optional<ExecutorLog> log_;
};

TEST_F(ExecutorLogTest, WritesUnchanged) {
  ExecutorLog& log = Open(milliseconds(10));
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> { co_await log.Write("a\n\nb\r\n"); }));
  EXPECT_EQ(ReadAll(), "a\n\nb\r\n");
}

TEST_F(ExecutorLogTest, LeavesTheSharedPipeBlocking) {
  Open(milliseconds(10));
  EXPECT_EQ(::fcntl(writer_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(ExecutorLogTest, DropsWhatAStalledReaderDoesNotTakeAndSaysSo) {
  ExecutorLog& log = Open(milliseconds(10));
  const std::string line(1023, 'x');
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> {
    for (int i = 0; i < 2000; ++i) co_await log.Write(line + "\n");
  }));
  EXPECT_THAT(ReadAll(), StartsWith(line));  // as much as a pipe holds
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> { co_await log.Write("after\n"); }));
  const std::string later = ReadAll();
  EXPECT_THAT(later, HasSubstr("lines of output were dropped here"));
  EXPECT_THAT(later, EndsWith("after\n"));
}

TEST_F(ExecutorLogTest, AReaderThatIsGoneDelaysNobody) {
  ExecutorLog& log = Open(std::chrono::minutes(10));
  reader_.Reset();
  const std::string line(1023, 'x');
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> {
    for (int i = 0; i < 2000; ++i) co_await log.Write(line + "\n");
    co_await log.Flush(Deadline::After(std::chrono::minutes(10)));
  }));
}

TEST_F(ExecutorLogTest, ASocketNeverBlocks) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd silent(ends[0]);
  writer_.Reset(ends[1]);
  ExecutorLog& log = Open(milliseconds(10));
  const std::string line(1023, 'x');
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> {
    for (int i = 0; i < 2000; ++i) co_await log.Write(line + "\n");
  }));
}

// Covers: disk full / feeding
TEST_F(ExecutorLogTest, AFullDiskTakesLinesAgainOnceThereIsRoom) {
  writer_.Reset(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(writer_.valid());
  UniqueFd log(::fcntl(writer_.get(), F_DUPFD_CLOEXEC, 0));
  const int number = log.get();
  log_.emplace(io_.get_executor(), std::move(log), milliseconds(5000));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Run([&]() -> asio::awaitable<void> { co_await log_->Write("lost\n"); }));
  }
  std::string path = ::testing::TempDir() + "log_XXXXXX";
  const UniqueFd file(::mkstemp(path.data()));
  ASSERT_EQ(::dup2(file.get(), number), number);
  EXPECT_TRUE(Run([&]() -> asio::awaitable<void> { co_await log_->Write("kept\n"); }));
  std::array<char, 4096> buffer{};
  ASSERT_GT(::pread(file.get(), buffer.data(), buffer.size() - 1, 0), 0);
  EXPECT_THAT(std::string(buffer.data()), HasSubstr("2 lines of output were dropped here"));
  EXPECT_THAT(std::string(buffer.data()), EndsWith("kept\n"));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace tfos::control
