#ifndef TFOS_CLI_AGENT_TESTS_TEST_COORDINATOR_H_
#define TFOS_CLI_AGENT_TESTS_TEST_COORDINATOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time/deadline.h"

namespace tfos::cli {

using nlohmann::json;

constexpr std::chrono::seconds kLong(30);

inline constexpr const char* kJoinKey =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
inline constexpr const char* kOtherKey =
    "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// Whether there is something to read before the deadline has passed.
bool Readable(int fd, Deadline deadline);

/// A coordinator with one agent, driven step by step by the test.
///
/// Owner and lifetime: the test. Threads: one. Errors: what must not happen fails the test. Its
/// WebSocket is kept out of this header, as that takes a compiler half a minute.
class TestCoordinator {
 public:
  TestCoordinator();
  ~TestCoordinator();

  int port() const;

  /// True when somebody has connected and waits to be accepted.
  bool HasVisitor();

  /// True when the agent has connected with the right key.
  bool Accept();

  /// As the coordinator of another cluster, whose key is another one.
  void Decline();

  /// The next message; null when the connection has ended. Without the end of the node's output,
  /// which nobody has asked for.
  json Next();
  json NextOfAll();

  /// The next message for which `wanted` holds, skipping others.
  json Await(const std::function<bool(const json&)>& wanted);
  json Await(const std::string& type);
  json AwaitState(const std::string& state);

  /// True when nothing but heartbeats and states comes before the end of the connection.
  bool AwaitEnd();

  void Send(const json& message);
  void SendText(const std::string& text);

  void StartNode(bool tensorboard = false);

  /// As if the coordinator had been killed.
  void Die();

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_AGENT_TESTS_TEST_COORDINATOR_H_
