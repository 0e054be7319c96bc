#include "control/agent/child/tensorboard_tunnel.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

#include "base/logging.h"
#include "base/process/unique_fd.h"
#include "control/link/stream/async_stream.h"
#include "control/link/tunnel/relay.h"
#include "control/messages/protocols.h"
#include "net/stream.h"

namespace tfos::control {

namespace asio = boost::asio;
using asio::ip::tcp;

asio::awaitable<void> OpenTensorBoardTunnel(asio::any_io_executor executor, CoordinatorDoor door,
                                            std::uint32_t number, std::uint16_t port) {
  constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
  Result<OpenedDoor> opened = co_await door.Open(executor, kTunnelProtocol, number);
  if (!opened.ok()) {
    LogWarning("TensorBoard's page can't be shown: {}", opened.status().ToString());
    co_return;
  }
  auto coordinator = std::make_shared<AsyncStream>(executor, std::move(opened->stream));
  tcp::socket socket(executor);
  const tcp::endpoint tensorboard(asio::ip::address_v4::loopback(), port);
  auto [refused] = co_await socket.async_connect(tensorboard, kNoThrow);
  boost::system::error_code error = refused;
  if (!error) socket.native_non_blocking(true, error);
  if (error) {
    LogWarning("TensorBoard does not answer on its port {}: {}", port, error.message());
    co_return;
  }
  UniqueFd connected(socket.release(error));
  auto near = std::make_shared<AsyncStream>(
      executor, std::make_unique<net::SocketStream>(std::move(connected)));
  co_await Relay(coordinator, std::move(near));
  const Status& failure = coordinator->failure();
  if (failure.ok() || failure.kind() != ErrorKind::kBadInput) co_return;
  LogWarning(
      "TensorBoard's page: data from the coordinator was altered in transit, so the connection was "
      "closed: {}",
      failure.ToString());
}

}  // namespace tfos::control
