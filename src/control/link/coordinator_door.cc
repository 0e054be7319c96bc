#include "control/link/coordinator_door.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "control/link/stream/watched_fd.h"
#include "control/link/time_limit.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "net/resolve.h"
#include "net/socket.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

Status Broken(const error_code& error) { return {ErrorKind::kReconnect, error.message()}; }

Status NoAnswer(std::chrono::milliseconds patience) {
  return {ErrorKind::kReconnect,
          fmt::format("no answer within {:g} s", std::chrono::duration<double>(patience).count())};
}

std::vector<tcp::endpoint> EndpointsOf(const net::Addresses& addresses) {
  std::vector<tcp::endpoint> endpoints;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    tcp::endpoint& endpoint = endpoints.emplace_back();
    endpoint.resize(one->ai_addrlen);
    std::memcpy(endpoint.data(), one->ai_addr, one->ai_addrlen);
  }
  return endpoints;
}

asio::awaitable<Result<std::vector<tcp::endpoint>>> Resolve(asio::any_io_executor executor,
                                                            const CoordinatorDoor& door) {
  error_code not_numeric;
  const auto address = asio::ip::make_address(door.address, not_numeric);
  if (!not_numeric) co_return std::vector<tcp::endpoint>{tcp::endpoint(address, door.port)};
  // Not Asio's own resolver: it can't be interrupted, and its context waits for it in the end.
  Result<net::AddressQuestion> question =
      net::AddressQuestion::Ask(door.address, door.port, door.lookup);
  if (!question.ok()) co_return Status(ErrorKind::kReconnect, question.status().message());
  WatchedFd answered(executor, question->fd());
  TimeLimit limit(executor);
  limit.Set(door.connect_timeout, [&answered] { answered.Release(); });
  auto [late] = co_await answered.Wait(WatchedFd::kInput, kNoThrow);
  if (late) co_return NoAnswer(door.connect_timeout).Annotate("look up host " + door.address);
  const Result<net::Addresses> found = question->Answer();
  if (!found.ok()) co_return Status(ErrorKind::kReconnect, found.status().message());
  co_return EndpointsOf(*found);
}

/// A connected socket; where this end is goes into `local_address`.
asio::awaitable<Result<UniqueFd>> Connect(asio::any_io_executor executor,
                                          const CoordinatorDoor& door, std::string& local_address) {
  Result<std::vector<tcp::endpoint>> endpoints = co_await Resolve(executor, door);
  if (!endpoints.ok()) co_return endpoints.status();
  tcp::socket socket(executor);
  TimeLimit limit(executor);
  error_code error;
  error_code refused = asio::error::host_not_found;
  bool late = false;
  // One that does not answer must not take the time of the next.
  const std::chrono::milliseconds share =
      door.connect_timeout / std::max<std::size_t>(1, endpoints->size());
  for (const tcp::endpoint& endpoint : *endpoints) {
    late = false;
    limit.Set(share, [&] {
      late = true;
      socket.close(error);
    });
    std::tie(refused) = co_await socket.async_connect(endpoint, kNoThrow);
    limit.Lift();
    if (!refused) break;
    socket.close(error);
  }
  if (refused && late) co_return NoAnswer(share);
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
