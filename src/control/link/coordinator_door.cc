#include "control/link/coordinator_door.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "control/link/stream/watched_fd.h"
#include "control/link/time_limit.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "net/socket.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

Status Broken(const error_code& error) { return {ErrorKind::kReconnect, error.message()}; }

asio::awaitable<Result<tcp::resolver::results_type>> Resolve(asio::any_io_executor executor,
                                                             const CoordinatorDoor& door) {
  error_code not_numeric;
  const auto address = asio::ip::make_address(door.address, not_numeric);
  const std::string port = std::to_string(door.port);
  if (!not_numeric) {
    co_return tcp::resolver::results_type::create(tcp::endpoint(address, door.port), door.address,
                                                  port);
  }
  tcp::resolver resolver(executor);
  auto [error, found] = co_await resolver.async_resolve(door.address, port, kNoThrow);
  if (error) co_return Broken(error);
  co_return found;
}

/// A connected socket; where this end is goes into `local_address`.
asio::awaitable<Result<UniqueFd>> Connect(asio::any_io_executor executor,
                                          const CoordinatorDoor& door, std::string& local_address) {
  Result<tcp::resolver::results_type> endpoints = co_await Resolve(executor, door);
  if (!endpoints.ok()) co_return endpoints.status();
  tcp::socket socket(executor);
  TimeLimit limit(executor);
  error_code error;
  error_code refused = asio::error::host_not_found;
  bool late = false;
  // One that does not answer must not take the time of the next.
  const std::chrono::milliseconds share =
      door.connect_timeout / std::max<std::size_t>(1, endpoints->size());
  for (const auto& entry : *endpoints) {
    late = false;
    limit.Set(share, [&] {
      late = true;
      socket.close(error);
    });
    std::tie(refused) = co_await socket.async_connect(entry.endpoint(), kNoThrow);
    limit.Lift();
    if (!refused) break;
    socket.close(error);
  }
  if (refused && late) {
    co_return Status(
        ErrorKind::kReconnect,
        fmt::format("no answer within {:g} s", std::chrono::duration<double>(share).count()));
  }
  if (refused) co_return Broken(refused);
  local_address = socket.local_endpoint(error).address().to_string();
  socket.native_non_blocking(true, error);
  UniqueFd connected(socket.release(error));
  if (error) co_return Broken(error);
  net::TuneTcp(connected.get());
  co_return connected;
}

asio::awaitable<Result<std::unique_ptr<net::Stream>>> ShakeHands(
    asio::any_io_executor executor, net::Handshake handshake, std::chrono::milliseconds patience) {
  WatchedFd waiting(executor, handshake.fd());
  TimeLimit limit(executor);
  limit.Set(patience, [&waiting] { waiting.Release(); });
  while (true) {
    const Result<net::Handshake::State> state = handshake.Continue();
    if (!state.ok()) {
      // An end that only closes may be anything.
      const bool closed = state.status().kind() == ErrorKind::kReconnect;
      co_return Status(
          ErrorKind::kReconnect,
          fmt::format("{}{}", state.status().ToString(),
                      closed ? ": what listens there is perhaps not a coordinator" : ""));
    }
    if (*state == net::Handshake::State::kDone) break;
    const auto event =
        *state == net::Handshake::State::kReading ? WatchedFd::kInput : WatchedFd::kOutput;
    auto [late] = co_await waiting.Wait(event, kNoThrow);
    if (late) co_return Status(ErrorKind::kReconnect, "it did not shake hands in time");
  }
  co_return handshake.Take().stream;
}

}  // namespace

asio::awaitable<Result<OpenedDoor>> CoordinatorDoor::Open(asio::any_io_executor executor,
                                                          net::Protocol protocol,
                                                          std::uint32_t generation) const {
  OpenedDoor opened;
  Result<UniqueFd> socket = co_await Connect(executor, *this, opened.local_address);
  if (!socket.ok()) co_return socket.status();
  const net::Party party{.protocol = protocol,
                         .key = key,
                         .encryption = encryption,
                         .tls_batch_bytes = kTlsBatchBytes};
  net::Handshake handshake = net::Handshake::Connecting(
      std::move(socket).value(), party, {.connecting = node_id, .generation = generation});
  auto stream = co_await ShakeHands(executor, std::move(handshake), connect_timeout);
  if (!stream.ok()) co_return stream.status();
  opened.stream = std::move(stream).value();
  co_return opened;
}

}  // namespace tfos::control
