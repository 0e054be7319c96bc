#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/host/gpus/gpu_lease.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

using control::GpuLease;

std::optional<GpuLease> Take(int count,
                             const std::vector<std::pair<std::string, std::string>>& inventory,
                             std::vector<std::string> assigned,
                             std::vector<std::string> of_executor) {
  std::vector<control::Gpu> gpus;
  for (const auto& [index, uuid] : inventory) gpus.push_back({.index = index, .uuid = uuid});
  const control::GpuRequest request = {.assigned = std::move(assigned),
                                       .count = count,
                                       .fraction = 0.0,
                                       .of_executor = std::move(of_executor)};
  Result<GpuLease> lease = GpuLease::Take(request, gpus);
  if (!lease.ok() && lease.status().kind() == ErrorKind::kRetryLater) return std::nullopt;
  return ValueOrThrow(std::move(lease), Domain::kCluster);
}

void Release(GpuLease& lease) { const GpuLease given_back = std::move(lease); }

}  // namespace

void BindGpuLease(nb::module_& module) {
  nb::class_<GpuLease>(module, "GpuLease",
                       "GPUs of this host that no other tfos process has. It ends with the object, "
                       "at the latest with the process.")
      .def_static("take", &Take, nb::arg("count"), nb::arg("gpus"),
                  nb::arg("assigned") = std::vector<std::string>(),
                  nb::arg("of_executor") = std::vector<std::string>(),
                  "Takes whole GPUs among `gpus`, pairs of index and UUID, at once or not at all: "
                  "None while others hold too many. If Spark has `assigned` some, those, or others "
                  "of the same executor in place of what is taken.")
      .def_prop_ro("indices", &GpuLease::indices, "In the order of their leasing.")
      .def_prop_ro("descriptors", &GpuLease::descriptors,
                   "What a process inherits to hold the GPUs, too, until it ends.")
      .def("release", &Release, "Gives the GPUs back.");
}

}  // namespace tfos::python
