#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "control/messages/parts/metric_names.h"
#include "node/agent_link.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"
#include "python/objects/python_profile.h"
#include "python/objects/python_stacks.h"

namespace tfos::python {
namespace {

std::shared_ptr<node::AgentLink> FromEnvironment() {
  return ValueOrThrow(WithoutGil([] { return node::AgentLink::FromEnvironment(); }),
                      Domain::kCluster);
}

nb::bytes TakePayload(node::AgentLink& link) {
  const std::string payload = link.TakePayload();
  return nb::bytes(payload.data(), payload.size());
}

void Send(node::AgentLink& link, const std::string& message) {
  ThrowIfError(WithoutGil([&] { return link.Send(message); }), Domain::kCluster);
}

void SetMetrics(node::AgentLink& link, const std::string& json) {
  ThrowIfError(WithoutGil([&] { return link.SetMetrics(json); }), Domain::kCluster);
}

void ServeStacks(node::AgentLink& link, int signal, int file) {
  const auto stacks = ValueOrThrow(PythonStacks::Create(signal, file), Domain::kCluster);
  link.ServeStacks([stacks](bool gentle) { return stacks->Text(gentle); });
}

void ServeProfiles(node::AgentLink& link) {
  link.ServeProfiles([profile = PythonProfile::Create()](std::chrono::milliseconds time) {
    return profile->Take(time);
  });
}

std::vector<std::string> KnownMetricNames() {
  std::vector<std::string> names;
  for (const control::KnownMetric& metric : control::kKnownMetrics) names.emplace_back(metric.name);
  return names;
}

}  // namespace

void BindAgentLink(nb::module_& module) {
  nb::class_<node::AgentLink>(module, "NodeLink",
                              "This process's link to the agent that started it.")
      .def_static("from_environment", &FromEnvironment,
                  "Takes the socket that the agent left in the environment.")
      .def_prop_ro("bootstrap", &node::AgentLink::bootstrap, "The bootstrap message, as JSON text.")
      .def_prop_ro("payload", &TakePayload, "The program as the driver sent it; given away once.")
      .def("send", &Send, nb::arg("message"), "Sends one message, as JSON text.")
      .def("attach_feed_server", &node::AgentLink::Attach, nb::arg("server"),
           nb::call_guard<nb::gil_scoped_release>(),
           "Ends this server's feed when the agent says so, and reports its counters.")
      .def("set_metrics", &SetMetrics, nb::arg("json"),
           "The program's own metrics, as the text of a JSON object.")
      .def("serve_stacks", &ServeStacks, nb::arg("signal"), nb::arg("file"),
           "Tells the stacks of Python's threads to people who ask. faulthandler was registered "
           "for the signal, with this file.")
      .def("metrics", &node::AgentLink::Metrics, nb::call_guard<nb::gil_scoped_release>(),
           "What is reported at this moment, as the text of a JSON object.")
      .def("serve_profiles", &ServeProfiles,
           "Samples Python's threads for people who ask, with the help of tfos.node.profiling.")
      .def("leaving", &node::AgentLink::Leaving,
           "{node id: why} of the nodes whose executors Spark is about to take away.");
  module.def("known_metrics", &KnownMetricNames,
             "Names of metrics that tfos reports itself. Every other one is the program's, or "
             "Keras'.");
}

}  // namespace tfos::python
