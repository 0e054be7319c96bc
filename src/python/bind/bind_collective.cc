#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time/seconds.h"
#include "collective/mesh/stream_choice.h"
#include "datasets/node_membership.h"
#include "datasets/tensor_group.h"
#include "node/agent_link.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

/// A member: what messages call it, its address and its port.
using MemberTuple = std::tuple<std::string, std::string, std::uint16_t>;

std::unique_ptr<datasets::TensorGroup> Join(
    const std::vector<MemberTuple>& members, std::uint32_t rank, const std::string& key,
    int listener, double connect_timeout, double stall_after, bool shared_memory,
    const std::string& encrypt, const std::string& rdma, const std::string& packaged_ucx,
    const std::string& timeline, node::AgentLink* link, const std::vector<std::uint32_t>& ranks,
    bool joins, double regroup_timeout) {
  collective::GroupOptions options;
  for (const auto& [name, address, port] : members) {
    options.members.push_back({.name = name, .address = address, .port = port});
  }
  options.rank = rank;
  options.ranks = ranks;
  options.joins = joins;
  options.regroup_timeout = SaturatingSeconds(regroup_timeout);
  options.key = ValueOrThrow(Secret::FromHex(key), Domain::kTensors);
  options.listener = UniqueFd(::fcntl(listener, F_DUPFD_CLOEXEC, 0));
  if (!options.listener.valid()) {
    ThrowStatus(Status::FromErrno(errno, "take the socket of this node's port for tensors"),
                Domain::kTensors);
  }
  options.connect_timeout = SaturatingSeconds(connect_timeout);
  options.stall_after = SaturatingSeconds(stall_after);
  options.shared_memory = shared_memory;
  options.encryption = ValueOrThrow(net::EncryptionFromWord(encrypt), Domain::kTensors);
  options.rdma = ValueOrThrow(collective::RdmaFromWord(rdma), Domain::kTensors);
  options.packaged_ucx = packaged_ucx;
  options.timeline = timeline;
  if (link != nullptr) {
    options.membership = std::make_shared<datasets::NodeMembership>(link->generations());
  }
  // Only while it joins: ops run on threads of TensorFlow, where no signal of Python arrives.
  const auto joining = std::make_shared<std::atomic<bool>>(true);
  options.check = [joining] { return *joining ? CheckSignals() : Status(); };
  auto group =
      ValueOrThrow(WithoutGil([&] { return datasets::TensorGroup::Join(std::move(options)); }),
                   Domain::kTensors);
  *joining = false;
  return group;
}

std::int64_t Register(datasets::TensorGroup& group, std::uintptr_t add, std::uintptr_t remove) {
  return ValueOrThrow(group.Register(reinterpret_cast<tfos_register_group_function>(add),
                                     reinterpret_cast<tfos_unregister_group_function>(remove)),
                      Domain::kTensors);
}

/// Where the UCX is that this process would use, its version, and whether it has InfiniBand.
std::tuple<std::string, std::string, bool> FindUcx(const std::string& packaged) {
  const collective::FoundUcx found = ValueOrThrow(collective::FindUcx(packaged), Domain::kTensors);
  return {found.file, found.version, found.has_verbs};
}

void Barrier(datasets::TensorGroup& group, const std::string& name) {
  ThrowIfError(WithoutGil([&] { return group.group().Barrier(name); }), Domain::kTensors);
}

}  // namespace

void BindCollective(nb::module_& module) {
  nb::class_<datasets::TensorGroup>(module, "TensorGroup", "The nodes that train together.")
      .def_static(
          "join", &Join, nb::arg("members"), nb::arg("rank"), nb::arg("key"), nb::arg("listener"),
          nb::arg("connect_timeout"), nb::arg("stall_after"), nb::arg("shared_memory"),
          nb::arg("encrypt"), nb::arg("rdma"), nb::arg("packaged_ucx"), nb::arg("timeline"),
          nb::arg("link").none() = nb::none(), nb::arg("ranks") = std::vector<std::uint32_t>(),
          nb::arg("joins") = false, nb::arg("regroup_timeout") = 60.0,
          "Waits until all members have joined: tuples of name, address and port. "
          "`key`: for tensors, in hexadecimal. `encrypt`: auto, true or false. "
          "`listener`: a socket that is bound to this one's port. `packaged_ucx`: the "
          "libucp to take where the system has none. `timeline`: a file, or empty. `link`: this "
          "node's, for a group that goes on without members that are lost. `ranks`: of those that "
          "it begins with; none: all. `joins`: they have begun without this one. "
          "`regroup_timeout`: as `connect_timeout`, when it goes on.")
      .def_prop_ro("rank", [](const datasets::TensorGroup& group) { return group.group().rank(); })
      .def_prop_ro("size", [](const datasets::TensorGroup& group) { return group.group().size(); })
      .def_prop_ro("ranks",
                   [](const datasets::TensorGroup& group) { return group.group().ranks(); })
      .def_prop_ro(
          "transport", [](const datasets::TensorGroup& group) { return group.group().transport(); },
          "How tensors travel, for people.")
      .def_prop_ro(
          "seconds",
          [](const datasets::TensorGroup& group) {
            const auto seconds = [](auto time) {
              return std::chrono::duration<double>(time).count();
            };
            return std::tuple(seconds(group.group().busy()), seconds(group.group().waited()));
          },
          "What its operations took so far, and what of that was waiting for other members.")
      .def_prop_ro(
          "bytes", [](const datasets::TensorGroup& group) { return group.group().bytes(); },
          "How many bytes of tensors they summed up, sent and gathered so far.")
      .def_prop_ro(
          "has_state", [](const datasets::TensorGroup& group) { return group.group().has_state(); },
          "Whether this member has the weights of those that train; a newcomer has not.")
      .def(
          "set_in_steps",
          [](datasets::TensorGroup& group, bool in_steps) { group.group().SetInSteps(in_steps); },
          nb::arg("in_steps"), "Whether it calls meet_after_step after each step.")
      .def(
          "meet_after_step",
          [](datasets::TensorGroup& group) {
            return ValueOrThrow(WithoutGil([&] { return group.group().MeetAfterStep(); }),
                                Domain::kTensors);
          },
          "True when newcomers were let in: all go on by giving them the weights, and settle.")
      .def(
          "come_in",
          [](datasets::TensorGroup& group) {
            ThrowIfError(WithoutGil([&] { return group.group().ComeIn(); }), Domain::kTensors);
          },
          "Returns when the others have let this newcomer in.")
      .def(
          "settle",
          [](datasets::TensorGroup& group) {
            ThrowIfError(WithoutGil([&] { return group.group().Settle(); }), Domain::kTensors);
          },
          "Returns when all have called it; newcomers have the weights from then on.")
      .def(
          "follow_others_while_waiting",
          [](datasets::TensorGroup& group, std::shared_ptr<node::NodeFeed> feed) {
            group.FollowOthersWhileWaiting(std::move(feed));
          },
          nb::arg("feed"),
          "While a reader of the feed waits for rows, the group goes on with the others if one of "
          "them is lost.")
      .def("register", &Register, nb::arg("add"), nb::arg("remove"),
           "The handle for the ops. `add` and `remove` are the addresses of the ops library's "
           "functions.")
      .def("barrier", &Barrier, nb::arg("name"), "Returns when all members have called it.")
      .def(
          "leave",
          [](datasets::TensorGroup& group) {
            ThrowIfError(WithoutGil([&] { return group.group().Leave(); }), Domain::kTensors);
          },
          "Takes part, without anything of its own, in what the others do until all have left.")
      .def(
          "close",
          [](datasets::TensorGroup& group, const std::string& why) { group.group().Close(why); },
          nb::arg("why"), nb::call_guard<nb::gil_scoped_release>(),
          "Ends the group for all members.");
  module.def("find_ucx", &FindUcx, nb::arg("packaged"),
             "File and version of the UCX that nodes would use, and whether it has InfiniBand and "
             "RoCE. `packaged`: as of TensorGroup.join.");
}

}  // namespace tfos::python
