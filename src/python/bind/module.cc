#include <nanobind/nanobind.h>

#include "python/bind/bindings.h"

NB_MODULE(_native, module) {
  module.doc() =
      "The native part of tfos: row codec, feed, the node's link to its agent, GPU leases, "
      "TFRecords, Hadoop's files, tensors between nodes, parameter servers, SavedModels.";
  // It warns of what daemon threads still use when the interpreter ends, which leaks nothing.
  nanobind::set_leak_warnings(false);
  tfos::python::BindCodec(module);
  tfos::python::BindFeed(module);
  tfos::python::BindBatches(module);
  tfos::python::BindAgentLink(module);
  tfos::python::BindGpuLease(module);
  tfos::python::BindExecutor(module);
  tfos::python::BindFiles(module);
  tfos::python::BindRecords(module);
  tfos::python::BindRecordRules(module);
  tfos::python::BindInference(module);
  tfos::python::BindKeys(module);
  tfos::python::BindCollective(module);
  tfos::python::BindParameterServer(module);
}
