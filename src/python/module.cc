#include <nanobind/nanobind.h>

#include "python/bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "The native part of tfos: row codec, feed and the node's link to its agent.";
  tfos::python::BindCodec(module);
  tfos::python::BindFeed(module);
  tfos::python::BindBatches(module);
  tfos::python::BindAgentLink(module);
}
