#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <sys/types.h>

#include <optional>

#include "control/host/executor_process.h"
#include "python/bind/bindings.h"

namespace tfos::python {
namespace {

std::optional<pid_t> Find(pid_t pid) {
  const Result<pid_t> jvm = control::FindExecutorJvm(pid);
  return jvm.ok() ? std::optional(*jvm) : std::nullopt;
}

}  // namespace

void BindExecutor(nanobind::module_& module) {
  module.def("find_executor_jvm", &Find, nanobind::arg("pid"),
             "The closest Java virtual machine above a process of this host, or the process itself "
             "if it is one. None: there is none.");
}

}  // namespace tfos::python
