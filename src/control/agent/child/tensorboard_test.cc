#include "control/agent/child/tensorboard.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "net/listen.h"

namespace tfos::control {
namespace {

TEST(TensorBoardTest, ACoordinatorThatAsksForTunnelsWithoutEndGetsSoManyAtATime) {
  boost::asio::io_context io(1);
  ExecutorLog log(io.get_executor(), UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  TensorBoard::Options options;
  options.argv = {"/bin/sleep", "600"};
  auto tensorboard = TensorBoard::Start(
      io.get_executor(), std::move(options), log, [](TensorBoardProcess) {}, [](ExitStatus) {});
  ASSERT_TRUE(tensorboard.ok()) << tensorboard.status().ToString();
  // Nobody shakes hands there, so a tunnel stays until it has waited long enough.
  auto listener = net::ListenTcp("127.0.0.1", 0, 0);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  const CoordinatorDoor door{.address = "127.0.0.1",
                             .port = listener->port,
                             .key = Secret::Generate().value(),
                             .connect_timeout = std::chrono::hours(1)};
  int opened = 0;
  while (opened < 10 * TensorBoard::kMostTunnels && (*tensorboard)->OpenTunnel(door, opened)) {
    ++opened;
    io.poll();
  }
  EXPECT_EQ(opened, TensorBoard::kMostTunnels);
  listener->fd.Reset();  // It resets the connections.
  while (!(*tensorboard)->OpenTunnel(door, opened)) io.run_one();
}

TEST(TensorBoardTest, NobodyElseCanTakeItsPortWhileItStarts) {
  boost::asio::io_context io(1);
  ExecutorLog log(io.get_executor(), UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  auto free_port = HeldPort::Bind({});
  ASSERT_TRUE(free_port.ok()) << free_port.status().ToString();
  const std::uint16_t port = free_port->port();
  { const HeldPort given_back = std::move(*free_port); }
  TensorBoard::Options options;
  options.argv = {"/bin/sleep", "600"};
  options.environment = {"TENSORBOARD_PORT=" + std::to_string(port)};
  auto tensorboard = TensorBoard::Start(
      io.get_executor(), std::move(options), log, [](TensorBoardProcess) {}, [](ExitStatus) {});
  ASSERT_TRUE(tensorboard.ok()) << tensorboard.status().ToString();
  EXPECT_EQ(net::ListenTcp("127.0.0.1", port, port).status().code().value(), EADDRINUSE);
  EXPECT_FALSE(HeldPort::Bind({.first = port, .last = port}).ok());
  tensorboard->reset();
  EXPECT_TRUE(HeldPort::Bind({.first = port, .last = port}).ok());
}

TEST(TensorBoardTest, TheAddressThatKubernetesGivesAServiceIsNoPort) {
  boost::asio::io_context io(1);
  ExecutorLog log(io.get_executor(), UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  TensorBoard::Options options;
  options.argv = {"/bin/sleep", "600"};
  options.environment = {"TENSORBOARD_PORT=tcp://10.96.0.5:6006"};
  const auto tensorboard = TensorBoard::Start(
      io.get_executor(), std::move(options), log, [](TensorBoardProcess) {}, [](ExitStatus) {});
  EXPECT_TRUE(tensorboard.ok()) << tensorboard.status().ToString();
}

}  // namespace
}  // namespace tfos::control
