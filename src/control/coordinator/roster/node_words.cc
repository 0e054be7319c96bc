#include "control/coordinator/roster/node_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/offices/step_ticket_office.h"

namespace tfos::control {

using std::chrono::milliseconds;

std::string SecondsForPeople(milliseconds duration) {
  return duration < std::chrono::seconds(10) ? fmt::format("{:.1f} s", duration.count() / 1000.0)
                                             : fmt::format("{} s", duration.count() / 1000);
}

std::string NodeName(const NodeInfo& node) {
  const std::string host = node.host.empty() ? "" : " on " + node.host;
  return fmt::format("{}:{} (node {}{})", node.job_name, node.task_index, node.node_id, host);
}

bool Names(std::string_view text, const NodeInfo& node) {
  const auto is_part_of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const std::array names = {
      fmt::format("{}:{}", node.job_name, node.task_index),
      fmt::format("/job:{}/replica:0/task:{}", node.job_name, node.task_index)};
  return std::ranges::any_of(names, [&](const std::string& name) {
    for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      const auto end = at + name.size();
      const bool begins = at == 0 || !is_part_of_word(text[at - 1]);
      if (begins && (end == text.size() || !is_part_of_word(text[end]))) return true;
    }
    return false;
  });
}

std::string ExplainNode(const NodeInfo& node, const std::string& coordinator_address) {
  const std::string since = SecondsForPeople(node.since_ms);
  if (node.state == NodeState::kExpected) {
    return fmt::format(
        "{}: no word from its agent for {}: Spark had no free slot for its task, or its executor "
        "can't reach the coordinator at {}",
        NodeName(node), since, coordinator_address);
  }
  const std::string why = node.detail.empty() ? "" : fmt::format(" ({})", node.detail);
  return fmt::format("{}: {} for {}{}", NodeName(node), NodeStateName(node.state), since, why);
}

std::string MissingNodes(const std::vector<NodeInfo>& nodes, milliseconds registration_timeout,
                         const std::string& coordinator_address) {
  std::string sentences;
  std::size_t missing = 0;
  for (const NodeInfo& node : nodes) {
    if (node.state != NodeState::kExpected && node.state != NodeState::kLost) continue;
    ++missing;
    sentences += "\n" + ExplainNode(node, coordinator_address);
  }
  return fmt::format("{} of {} nodes did not register within {}:{}", missing, nodes.size(),
                     SecondsForPeople(registration_timeout), sentences);
}

std::string HostIsAvoided(const std::string& host, int losses, Clock::Duration within) {
  const std::string lost =
      losses == 1 ? "a node was lost there"
                  : fmt::format("nodes were lost there {} times within {}", losses,
                                SecondsForPeople(std::chrono::duration_cast<milliseconds>(within)));
  return fmt::format(
      "host {} is avoided: {}. Another host is to take the node (spark.tfos.hosts.maxLosses, "
      "spark.tfos.hosts.lossPeriod)",
      host, lost);
}

std::string LostConnection(const NodeInfo& node) {
  return fmt::format(
      "{} is lost: the connection to its agent (pid {}) broke while it was {} for {}. The agent or "
      "its host died, or the executor was killed (out of memory?)",
      NodeName(node), node.agent_pid, NodeStateName(node.state), SecondsForPeople(node.since_ms));
}

std::string LostHeartbeats(const NodeInfo& node, milliseconds silence) {
  return fmt::format(
      "{} is lost: no heartbeat from its agent (pid {}) for {} while it was {}. Its host is down, "
      "unreachable or overloaded. See whether the host answers; if it was only slow, raise "
      "spark.tfos.heartbeat.timeout",
      NodeName(node), node.agent_pid, SecondsForPeople(silence), NodeStateName(node.state));
}

std::string BecauseItLeft(const NodeInfo& node) {
  return node.leaving.empty() ? "" : fmt::format(". Spark had announced it: {}", node.leaving);
}

FailureReport TooManyEpochs(const StepReport& report) {
  return Saying("count the steps of an epoch",
                fmt::format("it reports steps of epoch {} of queue '{}', and there are {} epochs "
                            "already that the other nodes have not left behind: every node must "
                            "read the same queues, epoch by epoch",
                            report.epoch, report.queue, StepTicketOffice::kMostEpochs));
}

std::string LateStart(const NodeInfo& node, milliseconds start_timeout) {
  return fmt::format(
      "{} has not called its program within {} (spark.tfos.node.startTimeout): it is {} and last "
      "said '{}'. What the program imports hangs (a file system that does not answer?) or takes "
      "longer than that",
      NodeName(node), SecondsForPeople(start_timeout), NodeStateName(node.state), node.detail);
}

std::string NoGroupAtStop(const std::string& reason) {
  return "the cluster is stopping: " + reason;
}

FailureReport NoSteps(const NodeInfo& node, std::optional<double> step, milliseconds standing,
                      bool held_up, std::string stacks) {
  const std::string last = step.has_value() ? fmt::format("Its last step was {:.0f}. ", *step) : "";
  const std::string why = held_up ? " It waits for other nodes, and so do they." : "";
  const std::string look =
      stacks.empty() ? " It did not say where it stands: `tfos stack` shows that while it runs"
                     : "";
  FailureReport report = Saying(
      "make a step",
      fmt::format("{} has made no step and read no row for {}, and did not wait for rows "
                  "(spark.tfos.node.stepTimeout). {}It was {}{}.{} If it may take longer to "
                  "evaluate, to save or to export, raise the setting (0: no limit).{}",
                  NodeName(node), SecondsForPeople(standing), last, NodeStateName(node.state),
                  node.detail.empty() ? "" : fmt::format(" ({})", node.detail), why, look));
  report.traceback = std::move(stacks);
  report.lost = true;
  return report;
}

FailureReport Saying(std::string step, std::string message) {
  FailureReport report;
  report.step = std::move(step);
  report.message = std::move(message);
  return report;
}

Failure FailureOf(const NodeInfo& node, FailureReport report) {
  return {.node_id = node.node_id,
          .job_name = node.job_name,
          .task_index = node.task_index,
          .host = node.host,
          .executor_id = node.executor_id,
          .report = std::move(report)};
}

Failure BlamingNobody(FailureReport report) {
  Failure failure;
  failure.report = std::move(report);
  return failure;
}

}  // namespace tfos::control
