// What a coordinator says to an agent that it has shaken hands with, over a real WebSocket, while
// the agent runs a real process as its node. The first byte chooses between
//   0, 1  a line for each message, before the coordinator starts the node or after it
//   2     bytes in place of frames
//   3     bytes in place of the answer to the WebSocket's request
// Whatever it is, the agent ends with its connection. The node runs where the launch task wants it,
// what it hears are messages that nodes know, and it hears all that came.

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "control/agent/agent.h"
#include "control/messages/agent_messages.h"
#include "control/messages/launch_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"
#include "guest.h"
#include "net/listen.h"

namespace {

using namespace tfos;           // NOLINT(google-build-using-namespace)
using namespace tfos::control;  // NOLINT(google-build-using-namespace)

constexpr int kNodeId = 3;
constexpr const char* kFolder = "/usr";
/// The reason of the last thing that nodes hear of.
constexpr const char* kLast = "the last word of the coordinator";

class NoGpus final : public GpuInventory {
 public:
  boost::asio::awaitable<Result<std::vector<Gpu>>> List(boost::asio::any_io_executor) override {
    co_return std::vector<Gpu>();
  }
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    out.Reset(ends[0]);
    in.Reset(ends[1]);
  }
  UniqueFd out;
  UniqueFd in;
};

/// What the node has repeated, and what the agent has told the launch task.
class Heard {
 public:
  void Add(std::string Heard::*to, std::string_view text) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    this->*to += text;
    changed_.NotifyAll();
  }
  void End() TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  /// Waits until the node has heard the last word, or hears nothing any more.
  void AwaitLast() TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!ended_ && node.find(kLast) == std::string::npos &&
           task.find(R"("failed")") == std::string::npos &&
           task.find(R"("done")") == std::string::npos) {
      changed_.Wait(mutex_);
    }
  }

  std::string node;
  std::string task;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ended_ TFOS_GUARDED_BY(mutex_) = false;
};

/// Reads a pipe to its end.
void Read(const UniqueFd& pipe, Heard& heard, std::string Heard::*to) {
  std::array<char, 4096> room;
  while (true) {
    const ssize_t got = ::read(pipe.get(), room.data(), room.size());
    if (got <= 0) return heard.End();
    heard.Add(to, {room.data(), static_cast<std::size_t>(got)});
  }
}

/// RFC 6455, 4.2.2: how a server shows that it has read the request.
std::string AcceptKey(std::string_view request) {
  constexpr std::string_view kName = "Sec-WebSocket-Key: ";
  const std::size_t begin = request.find(kName) + kName.size();
  const std::string text = std::string(request.substr(begin, request.find("\r\n", begin) - begin)) +
                           "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &bytes, EVP_sha1(), nullptr) != 1) {
    std::abort();
  }
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> encoded;
  const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(bytes));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(length)};
}

/// A text message of a server.
std::string Frame(std::string_view text) {
  std::string frame = "\x81";
  if (text.size() < 126) {
    frame += static_cast<char>(text.size());
  } else if (text.size() <= 0xffff) {
    frame += {126, static_cast<char>(text.size() >> 8), static_cast<char>(text.size() & 0xff)};
  } else {
    frame += 127;
    for (int shift = 56; shift >= 0; shift -= 8) {
      frame += static_cast<char>(text.size() >> shift & 0xff);
    }
  }
  return frame.append(text);
}

std::string FramesOf(std::string_view script) {
  std::string frames;
  while (!script.empty()) {
    const std::string_view line = script.substr(0, script.find('\n'));
    script.remove_prefix(std::min(script.size(), line.size() + 1));
    if (!line.empty()) frames += Frame(line);
  }
  return frames;
}

std::string Order(std::uint16_t port, const Secret& key) {
  AgentBootstrap order;
  order.cluster_id = "c1";
  order.keys = {.join = key, .feed = key, .tensors = key, .parameters = key};
  order.coordinator = {.address = "127.0.0.1", .port = port};
  order.node_id = kNodeId;
  order.executor_id = "1";
  // It repeats what it hears.
  order.python = {"/bin/bash", "-c", "echo \"$PWD\"; exec cat <&$TFOS_AGENT_FD"};
  order.tensorboard = {"/bin/sleep", "600"};
  order.cwd = kFolder;
  order.environment = {"PATH=/bin"};
  order.ports = "0";
  order.log_level = "OFF";
  return SerializeMessage(order) + "\n";
}

void Coordinate(int listener, const Secret& key, int way, std::string_view said, Heard& heard) {
  const auto agent = AcceptGuest(listener, {.protocol = kAgentProtocol, .key = key});
  if (agent == nullptr) return;
  const std::string request = Hear(*agent, "\r\n\r\n");
  if (way == 3) {
    Say(*agent, said);
  } else {
    Say(*agent, fmt::format("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
                            AcceptKey(request)));
    StartNode start;
    start.job_name = "worker";
    const std::string started = Frame(SerializeMessage(start));
    if (way == 2) {
      Say(*agent, started);
      Say(*agent, said);
    } else {
      Say(*agent, way == 0 ? FramesOf(said) + started : started + FramesOf(said));
      Say(*agent, Frame(SerializeMessage(NodeLeaving{.node_id = kNodeId, .reason = kLast})));
      heard.AwaitLast();
    }
  }
  Drain(*agent);
}

/// Of what the node has repeated.
void Check(std::string_view log) {
  const auto next = [&] {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(line.size() + 1);
    return line;
  };
  const auto has_line = [&] { return log.find('\n') != std::string_view::npos; };
  if (has_line() && next() != kFolder) std::abort();
  for (bool first = true; has_line(); first = false) {
    const auto command = ParseMessage<NodeCommand>(next());
    if (!command.ok() || std::holds_alternative<UnknownMessage>(*command)) std::abort();
    if (std::holds_alternative<NodeBootstrap>(*command) != first) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool ready = [] {
    ::signal(SIGPIPE, SIG_IGN);
    return true;
  }();
  (void)ready;
  static const Secret key = Secret::Generate().value();
  if (size == 0) return 0;
  const int way = data[0] % 4;
  const std::string_view said(reinterpret_cast<const char*>(data + 1), size - 1);
  const net::TcpListener listener = net::ListenTcp("127.0.0.1", 0, 0).value();
  Pipe order;
  Pipe told;
  Pipe log;
  const std::string text = Order(listener.port, key);
  if (::write(order.in.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::abort();
  }
  Heard heard;
  std::thread node([&] { Read(log.out, heard, &Heard::node); });
  std::thread task([&] { Read(told.out, heard, &Heard::task); });
  std::thread coordinator([&] { Coordinate(listener.fd.get(), key, way, said, heard); });
  NoGpus gpus;
  RunAgent({.input = std::move(order.out),
            .output = std::move(told.in),
            .log = std::move(log.in),
            .host = "h"},
           gpus);
  coordinator.join();
  node.join();
  task.join();
  Check(heard.node);
  return 0;
}
