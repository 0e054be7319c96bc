#include "cli/agent_tests/test_coordinator.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <optional>
#include <utility>

#include "base/process/unique_fd.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"

namespace tfos::cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

bool Readable(int fd, Deadline deadline) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = ::poll(&waiting, 1, deadline.PollMilliseconds());
    if (ready > 0) return true;
    if (deadline.passed()) return false;
  }
}

struct TestCoordinator::Sockets {
  Result<net::Connection> ShakeHands(const char* key) {
    if (!Readable(acceptor.native_handle(), Deadline::After(kLong))) {
      return Status(ErrorKind::kRetryLater, "nobody has come");
    }
    tcp::socket socket = acceptor.accept();
    socket.native_non_blocking(true);
    auto handshake = net::Handshake::Accepting(
        UniqueFd(socket.release()),
        {.protocol = control::kAgentProtocol, .key = *Secret::FromHex(key)}, {});
    TFOS_RETURN_IF_ERROR(net::Finish(handshake, {.deadline = Deadline::After(kLong)}));
    return handshake.Take();
  }

  asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::optional<beast::websocket::stream<beast::tcp_stream>> agent;
};

TestCoordinator::TestCoordinator() : sockets_(std::make_unique<Sockets>()) {}
TestCoordinator::~TestCoordinator() = default;

int TestCoordinator::port() const { return sockets_->acceptor.local_endpoint().port(); }

bool TestCoordinator::HasVisitor() {
  return Readable(sockets_->acceptor.native_handle(), Deadline::After({}));
}

bool TestCoordinator::Accept() {
  auto connection = sockets_->ShakeHands(kJoinKey);
  if (!connection.ok()) return false;
  EXPECT_EQ(connection->numbers.connecting, 3U);
  // Within a host, what follows goes through the socket as it is.
  EXPECT_EQ(connection->channel, net::Channel::kPlain);
  auto& agent = sockets_->agent;
  agent.emplace(tcp::socket(sockets_->io, tcp::v4(), ::dup(connection->stream->fd())));
  beast::flat_buffer buffer;
  beast::http::request<beast::http::string_body> request;
  beast::http::read(agent->next_layer().socket(), buffer, request);
  EXPECT_EQ(request.target(), "/v1/agent");
  EXPECT_EQ(request.count(beast::http::field::authorization), 0);
  agent->accept(request);
  return true;
}

void TestCoordinator::Decline() { EXPECT_FALSE(sockets_->ShakeHands(kOtherKey).ok()); }

json TestCoordinator::Next() {
  json message = NextOfAll();
  while (message.is_object() && message["type"] == "answer" && message["number"] == -1) {
    message = NextOfAll();
  }
  return message;
}

json TestCoordinator::NextOfAll() {
  beast::flat_buffer buffer;
  std::optional<boost::system::error_code> result;
  auto& agent = sockets_->agent;
  agent->next_layer().expires_after(kLong);
  agent->async_read(
      buffer, [&result](const boost::system::error_code& error, std::size_t) { result = error; });
  sockets_->io.restart();
  while (!result.has_value()) sockets_->io.run_one();
  EXPECT_NE(*result, beast::error::timeout) << "the agent said nothing";
  if (*result) return {};
  return json::parse(beast::buffers_to_string(buffer.data()));
}

json TestCoordinator::Await(const std::function<bool(const json&)>& wanted) {
  while (true) {
    json message = Next();
    if (message.is_null()) {
      ADD_FAILURE() << "the connection ended while a message was awaited";
      return json::object();
    }
    if (wanted(message)) return message;
  }
}

json TestCoordinator::Await(const std::string& type) {
  return Await([&type](const json& message) { return message["type"] == type; });
}

json TestCoordinator::AwaitState(const std::string& state) {
  return Await([&state](const json& message) {
    return message["type"] == "state" && message["state"] == state;
  });
}

bool TestCoordinator::AwaitEnd() {
  while (true) {
    const json message = Next();
    if (message.is_null()) return true;
    if (message["type"] != "heartbeat" && message["type"] != "state") return false;
  }
}

void TestCoordinator::Send(const json& message) { SendText(message.dump()); }
void TestCoordinator::SendText(const std::string& text) {
  sockets_->agent->write(asio::buffer(text));
}

void TestCoordinator::StartNode(bool tensorboard) {
  Send({{"type", "start"},
        {"job_name", "worker"},
        {"task_index", 0},
        {"cluster_spec", {{"worker", {"127.0.0.1:1"}}}},
        {"num_workers", 1},
        {"nodes", json::array()},
        {"tensorboard", tensorboard}});
}

void TestCoordinator::Die() { sockets_->agent->next_layer().close(); }

}  // namespace tfos::cli
