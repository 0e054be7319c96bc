#include "control/link/line_channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/link/spawn.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

class LineChannelTest : public ::testing::Test {
 protected:
  LineChannelTest() {
    std::array<int, 2> ends;
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_.Reset(ends[0]);
    std::array<int, 2> input;
    EXPECT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
    input_writer_.Reset(input[1]);
    channel_.emplace(io_.get_executor(), UniqueFd(input[0]), UniqueFd(ends[1]));
  }

  /// Runs what can run without waiting for the reader.
  void Run() {
    io_.restart();
    io_.poll();
  }

  /// What the pipe holds now; `ended_` tells whether it has been closed.
  std::string Read() {
    ::fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t got = ::read(reader_.get(), buffer.data(), buffer.size());
      ended_ = got == 0;
      if (got <= 0) return all;
      all.append(buffer.data(), static_cast<std::size_t>(got));
      Run();
    }
  }

  asio::io_context io_;
  UniqueFd reader_;
  UniqueFd input_writer_;
  std::optional<LineChannel> channel_;
  bool ended_ = false;
};

TEST_F(LineChannelTest, TheInputOfADeadWriterEndsThoughItsPipeIsHeld) {
  std::vector<std::string> lines;
  bool at_end = false;
  const auto read = [&]() -> asio::awaitable<void> {
    while (true) {
      auto line = co_await channel_->ReadLine();
      at_end = line.ok() && !line->has_value();
      if (!line.ok() || !line->has_value()) co_return;
      lines.push_back(**line);
    }
  };
  Spawn(io_.get_executor(), "read", read(), [](const Status&) {});
  Run();
  const std::string_view last_words = "stop\nexit\nhal";
  ASSERT_EQ(::write(input_writer_.get(), last_words.data(), last_words.size()), 13);
  channel_->EndInputOfDeadWriter();
  Run();
  EXPECT_EQ(lines, (std::vector<std::string>{"stop", "exit"}));
  EXPECT_TRUE(at_end);
}

TEST_F(LineChannelTest, AReaderThatStandsStillFindsTheLatestStateOnce) {
  const std::string event(200'000, 'e');  // more than a pipe takes
  channel_->Send(event + "\n");
  Run();
  int made = 0;
  for (int beat = 0; beat < 10'000; ++beat) {
    channel_->SendLatest("metrics", [&made, beat] {
      ++made;
      return "metrics " + std::to_string(beat) + "\n";
    });
    Run();
  }
  EXPECT_EQ(made, 0);
  EXPECT_EQ(Read(), event + "\nmetrics 9999\n");
  EXPECT_EQ(made, 1);
}

TEST_F(LineChannelTest, AReaderThatLeavesTooMuchUnreadGetsTheEndOfTheStream) {
  const std::string event(1 << 20, 'e');
  for (std::size_t sent = 0; sent <= LineChannel::kMaxQueuedBytes + 2 * event.size();
       sent += event.size()) {
    channel_->Send(event);
    Run();
  }
  EXPECT_LT(Read().size(), event.size());
  EXPECT_TRUE(ended_);
}

TEST_F(LineChannelTest, SendsEventsInTheirOrder) {
  channel_->Send("a\n");
  channel_->SendLatest("state", [] { return "s\n"; });
  channel_->Send("b\n");
  Run();
  EXPECT_EQ(Read(), "a\ns\nb\n");
  EXPECT_FALSE(ended_);
}

}  // namespace
}  // namespace tfos::control
