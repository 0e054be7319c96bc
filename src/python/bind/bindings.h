#ifndef TFOS_PYTHON_BIND_BINDINGS_H_
#define TFOS_PYTHON_BIND_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace tfos::python {

// Each adds one part of tfos._native; called once, from the module's initialisation.

void BindBatches(nanobind::module_& module);
void BindCodec(nanobind::module_& module);
void BindExecutor(nanobind::module_& module);
void BindFeed(nanobind::module_& module);
void BindFiles(nanobind::module_& module);
void BindAgentLink(nanobind::module_& module);
void BindGpuLease(nanobind::module_& module);
void BindKeys(nanobind::module_& module);
void BindInference(nanobind::module_& module);
void BindRecords(nanobind::module_& module);
void BindRecordRules(nanobind::module_& module);
void BindCollective(nanobind::module_& module);
void BindParameterServer(nanobind::module_& module);

}  // namespace tfos::python

#endif  // TFOS_PYTHON_BIND_BINDINGS_H_
