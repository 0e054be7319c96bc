#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time/seconds.h"
#include "node/agent_link.h"
#include "parameter_server/client.h"
#include "parameter_server/server.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"
#include "python/objects/exclusive.h"
#include "python/objects/gil.h"
#include "python/objects/numpy_types.h"

namespace tfos::python {
namespace {

using parameter_server::Client;
using parameter_server::Rule;

/// What Python holds of a client, whose methods let go of the GIL.
using HeldClient = Exclusive<Client>;

/// A server: what messages call it, its address, its port, the id of what it belongs to, which
/// connections it encrypts, and its node; -1: of no cluster.
using ServerTuple =
    std::tuple<std::string, std::string, std::uint16_t, std::string, std::string, int>;
/// A variable: NumPy's name of its type, how many elements, and whether it is averaged.
using VariableTuple = std::tuple<std::string, std::uint64_t, bool>;

/// The memory of objects with the buffer protocol, held while this lives.
class Buffers {
 public:
  Buffers(const std::vector<nb::object>& objects, int flags) {
    for (const nb::object& object : objects) {
      if (!views_.emplace_back(object, flags).acquired()) throw nb::python_error();
    }
  }

  std::vector<std::span<const std::byte>> constant() const {
    std::vector<std::span<const std::byte>> all;
    for (const BufferView& view : views_) all.push_back(view.bytes());
    return all;
  }
  std::vector<std::span<std::byte>> writable() const {
    std::vector<std::span<std::byte>> all;
    for (const BufferView& view : views_) all.push_back(view.bytes());
    return all;
  }

 private:
  std::deque<BufferView> views_;
};

Rule MakeRule(const std::string& combiner, bool nesterov, std::uint32_t workers,
              double learning_rate, double momentum, double beta_1, double beta_2, double epsilon) {
  return {.combiner = ValueOrThrow(parameter_server::CombinerFrom(combiner), Domain::kTensors),
          .nesterov = nesterov,
          .workers = workers,
          .learning_rate = learning_rate,
          .momentum = momentum,
          .beta_1 = beta_1,
          .beta_2 = beta_2,
          .epsilon = epsilon};
}

std::unique_ptr<HeldClient> Connect(const std::vector<ServerTuple>& servers,
                                    const std::vector<VariableTuple>& variables, const Rule& rule,
                                    std::optional<std::uint32_t> staleness, std::uint32_t worker,
                                    const std::string& name, bool starts, const std::string& key,
                                    double connect_timeout, double stall_after,
                                    const node::AgentLink* link, double copy_interval) {
  parameter_server::ClientOptions options{
      .servers = {},
      .variables = {},
      .rule = rule,
      .staleness = staleness,
      .worker = worker,
      .name = name,
      .starts = starts,
      .key = ValueOrThrow(Secret::FromHex(key), Domain::kTensors),
      .connect_timeout = SaturatingSeconds(connect_timeout),
      .stall_after = SaturatingSeconds(stall_after),
      .check = &CheckSignals,
      .copy_interval = SaturatingSeconds(copy_interval)};
  std::vector<int> nodes;
  std::vector<std::string> ids;
  for (const auto& [server, address, port, id, encrypt, node_id] : servers) {
    nodes.push_back(node_id);
    ids.push_back(id);
    const auto number = static_cast<std::uint32_t>(options.servers.size());
    options.servers.push_back(
        {.name = server,
         .address = address,
         .port = port,
         .local_name = parameter_server::LocalName(options.key, id, number, port),
         .encryption = ValueOrThrow(net::EncryptionFromWord(encrypt), Domain::kTensors)});
  }
  if (link != nullptr) {
    options.find = [moved = link->moved(), began = options.servers, nodes, ids,
                    key = options.key](std::size_t server) {
      parameter_server::ServerAddress now = began[server];
      if (const auto there = moved(nodes[server])) {
        now.name = there->name;
        now.address = there->address;
        now.port = static_cast<std::uint16_t>(there->tensor_port);
        now.local_name = parameter_server::LocalName(key, ids[server],
                                                     static_cast<std::uint32_t>(server), now.port);
      }
      return now;
    };
  }
  for (const auto& [dtype, elements, averaged] : variables) {
    options.variables.push_back(
        {.dtype = ValueOrThrow(parameter_server::VariableTypeFrom(dtype), Domain::kTensors),
         .elements = elements,
         .averaged = averaged});
  }
  return std::make_unique<HeldClient>(
      ValueOrThrow(WithoutGil([&] { return Client::Connect(std::move(options)); }),
                   Domain::kTensors),
      "client of the parameter servers");
}

void Run(HeldClient& held, const std::optional<std::string>& push, bool pull, bool overlapped,
         const std::vector<nb::object>& tensors) {
  const auto client = held.Enter("run");
  Client::Exchange exchange{.pull = pull, .overlapped = overlapped};
  if (push) exchange.push = ValueOrThrow(parameter_server::PushedFrom(*push), Domain::kTensors);
  const Buffers buffers(tensors, PyBUF_SIMPLE);
  ThrowIfError(WithoutGil([&] { return client->Run(exchange, buffers.constant()); }),
               Domain::kTensors);
}

void CopyValues(HeldClient& held, const std::vector<nb::object>& tensors) {
  const auto client = held.Enter("copy_values");
  const Buffers buffers(tensors, PyBUF_WRITABLE);
  ThrowIfError(WithoutGil([&] { return client->CopyValues(buffers.writable()); }),
               Domain::kTensors);
}

void Read(HeldClient& held, std::uint8_t part, const std::vector<nb::object>& tensors) {
  const auto client = held.Enter("read");
  const Buffers buffers(tensors, PyBUF_WRITABLE);
  ThrowIfError(WithoutGil([&] { return client->Read(part, buffers.writable()); }),
               Domain::kTensors);
}

void Write(HeldClient& held, std::uint8_t part, const std::vector<nb::object>& tensors) {
  const auto client = held.Enter("write");
  const Buffers buffers(tensors, PyBUF_SIMPLE);
  ThrowIfError(WithoutGil([&] { return client->Write(part, buffers.constant()); }),
               Domain::kTensors);
}

}  // namespace

void BindParameterServer(nb::module_& module) {
  const Rule unset;
  nb::class_<Rule>(module, "ParameterRule", "How parameter servers combine what is pushed.")
      .def_static("make", &MakeRule, nb::arg("combiner"), nb::kw_only(),
                  nb::arg("nesterov") = unset.nesterov, nb::arg("workers") = unset.workers,
                  nb::arg("learning_rate") = unset.learning_rate,
                  nb::arg("momentum") = unset.momentum, nb::arg("beta_1") = unset.beta_1,
                  nb::arg("beta_2") = unset.beta_2, nb::arg("epsilon") = unset.epsilon,
                  "`combiner`: delta, mean, update-mean, sgd or adam.")
      .def_prop_ro("slots", &Rule::slots, "Values that a server keeps besides each element.");
  nb::class_<HeldClient>(module, "ParameterClient", "A worker's side of the parameter servers.")
      .def_static(
          "connect", &Connect, nb::arg("servers"), nb::arg("variables"), nb::arg("rule"),
          nb::arg("staleness").none(), nb::arg("worker"), nb::arg("name"), nb::arg("starts"),
          nb::arg("key"), nb::arg("connect_timeout"), nb::arg("stall_after"),
          nb::arg("link").none(), nb::arg("copy_interval"),
          "Waits for the servers, and for their first values unless this one `starts`. "
          "`servers`: tuples of name, address, port, the id of their cluster, auto, true or "
          "false for what they encrypt, and the node; `link`: knows where servers are that were "
          "lost and come again, None: none does; `copy_interval`: seconds between two copies of "
          "the optimizer's slots for them; `key`: for parameters, in hexadecimal; "
          "`variables`: tuples of type, number of elements, and whether it is averaged.")
      .def("run", &Run, nb::arg("push").none(), nb::arg("pull"), nb::arg("overlapped"),
           nb::arg("tensors"),
           "Pushes `tensors` (as values, change or gradients; None: not), then pulls.")
      .def("copy_values", &CopyValues, nb::arg("tensors"),
           "Copies what the variables are to be to writable buffers.")
      .def("read", &Read, nb::arg("part"), nb::arg("tensors"),
           "Reads a part of the servers' state to writable buffers.")
      .def("write", &Write, nb::arg("part"), nb::arg("tensors"),
           "Writes a part of the servers' state.")
      .def(
          "start_at",
          [](HeldClient& held, std::uint64_t version) {
            const auto client = held.Enter("start_at");
            ThrowIfError(WithoutGil([&] { return client->StartAt(version); }), Domain::kTensors);
          },
          nb::arg("version"), "What was written is what to go on from.")
      .def_prop_ro(
          "started", [](HeldClient& held) { return held.Enter("started")->started(); },
          "Whether the servers have values.")
      .def_prop_ro(
          "version", [](HeldClient& held) { return held.Enter("version")->version(); },
          "Pushes that the servers had combined.")
      .def_prop_ro(
          "local_servers",
          [](HeldClient& held) { return held.Enter("local_servers")->local_servers(); },
          "How many servers share memory with this client.");
}

}  // namespace tfos::python
