#ifndef TFOS_PARAMETER_SERVER_SERVER_FIXTURE_H_
#define TFOS_PARAMETER_SERVER_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "net/listen.h"
#include "parameter_server/client.h"
#include "parameter_server/server.h"

// One suite for all ways from a worker to a parameter server: shared memory, plain TCP, and TLS.
namespace tfos::parameter_server {

using std::chrono::seconds;

enum class Way { kSharedMemory, kTcp, kTls };

/// A server in a thread, until it is stopped.
class Serving {
 public:
  /// `returns`: in place of one that was lost.
  Serving(const Secret& key, std::uint32_t number, Way way, bool returns = false,
          std::chrono::milliseconds patience = kPatienceForCopies) {
    auto listener = net::ListenTcp("127.0.0.1", 0, 0);
    EXPECT_TRUE(listener.ok());
    address_ = {
        .name = fmt::format("ps:{} on host h", number),
        .address = "127.0.0.1",
        .port = listener->port,
        .local_name =
            way == Way::kSharedMemory ? fmt::format("tfos-ps-test-{}", listener->port) : "",
        .encryption = way == Way::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts};
    auto server = Server::Create({.key = key,
                                  .number = number,
                                  .listener = std::move(listener->fd),
                                  .local_name = address_.local_name,
                                  .encryption = address_.encryption,
                                  .returns = returns,
                                  .patience_for_copies = patience});
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  ~Serving() { Stop(); }

  /// As a process that dies: its sockets are closed.
  void Stop() {
    StandStill();
    server_.reset();
  }

  /// As a process that is stopped (SIGSTOP): its sockets stay as they are.
  void StandStill() {
    if (!thread_.joinable()) return;
    server_->Stop();
    thread_.join();
  }

  const ServerAddress& address() const { return address_; }
  Server& server() { return *server_; }

 private:
  ServerAddress address_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

class ServerTest : public ::testing::TestWithParam<Way> {
 protected:
  ServerTest() : key_(*Secret::Generate()) {}

  void Start(std::uint32_t servers) {
    for (std::uint32_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<Serving>(key_, i, GetParam()));
    }
  }

  ClientOptions Options(std::uint32_t worker, const Rule& rule = {}) {
    ClientOptions options;
    for (const auto& server : servers_) options.servers.push_back(server->address());
    options.variables = variables_;
    options.rule = rule;
    options.worker = worker;
    options.name = fmt::format("worker:{} on host h", worker);
    options.starts = worker == 0;
    options.key = key_;
    options.connect_timeout = seconds(60);
    return options;
  }

  std::unique_ptr<Client> Connect(const ClientOptions& options) {
    auto client = Client::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    if (!client.ok()) return nullptr;
    EXPECT_EQ((*client)->local_servers() > 0, GetParam() == Way::kSharedMemory);
    return std::move(*client);
  }

  /// A client that has given the servers their first values: all `value`.
  std::unique_ptr<Client> First(float value, const Rule& rule = {}) {
    auto client = Connect(Options(0, rule));
    EXPECT_FALSE(client->started());
    const auto tensors = All(value);
    EXPECT_TRUE(client->Write(0, Views(tensors)).ok());
    EXPECT_TRUE(client->StartAt(0).ok());
    EXPECT_TRUE(client->started());
    return client;
  }

  std::vector<std::vector<float>> All(float value) const {
    std::vector<std::vector<float>> tensors;
    for (const Variable& variable : variables_) tensors.emplace_back(variable.elements, value);
    return tensors;
  }

  /// Valid as long as the tensors, until it is called again.
  Client::Tensors Views(const std::vector<std::vector<float>>& tensors) {
    views_.clear();
    for (const auto& tensor : tensors) views_.push_back(std::as_bytes(std::span(tensor)));
    return views_;
  }

  static std::vector<float> Values(const Client& client, std::size_t variable) {
    const auto bytes = client.values(variable);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  Secret key_;
  std::vector<Variable> variables_{{DType::kFloat32, 300'000}, {DType::kFloat32, 10}};
  std::vector<std::unique_ptr<Serving>> servers_;
  std::vector<std::span<const std::byte>> views_;
};

INSTANTIATE_TEST_SUITE_P(Transports, ServerTest,
                         ::testing::Values(Way::kSharedMemory, Way::kTcp, Way::kTls),
                         [](const auto& test) {
                           switch (test.param) {
                             case Way::kSharedMemory:
                               return "SharedMemory";
                             case Way::kTcp:
                               return "Tcp";
                             default:
                               return "Tls";
                           }
                         });

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_SERVER_FIXTURE_H_
