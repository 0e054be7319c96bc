#include "control/agent/node_report.h"

#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/process/process_state.h"
#include "control/messages/launch_messages.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {
namespace {

/// The metrics that say how far a program has come.
constexpr std::array kWhereItIs = {KnownName("epoch"), KnownName("step"), KnownName("batches"),
                                   KnownName("rows")};

/// From here on the driver is told that a node does not answer.
constexpr std::chrono::seconds kSilenceToTell(2);
constexpr const char* kSilenceMetric = KnownName("seconds_without_answer");

std::string Line(std::string message) { return std::move(message) + '\n'; }

/// With what the node's process and its GPUs do, where its program reports nothing by these names.
Metrics WithUsage(Metrics metrics, std::int64_t pid, const std::optional<GpuUsage>& gpus) {
  if (pid == 0) return metrics;
  const auto add = [&](const char* name, MetricValue value) {
    if (metrics.size() < kMostMetrics) metrics.emplace(name, std::move(value));
  };
  if (const auto stat = ReadProcessStat(fmt::format("/proc/{}", pid)); stat.has_value()) {
    add(KnownName("cpu_seconds"), stat->cpu_seconds);
    add(KnownName("rss_bytes"), stat->rss_bytes);
  }
  if (!gpus.has_value()) return metrics;
  if (gpus->utilization.has_value()) add(KnownName("gpu_utilization"), *gpus->utilization);
  if (gpus->memory_bytes.has_value()) add(KnownName("gpu_memory_bytes"), *gpus->memory_bytes);
  return metrics;
}

}  // namespace

void NodeReport::ConnectTo(CoordinatorLink& link, Register registration) {
  link_ = &link;
  registration_ = std::move(registration);
}

void NodeReport::SendRegister() {
  registered_ = true;
  link_->Send(SerializeMessage(registration_));
}

void NodeReport::Enter(NodeState state, std::string detail) {
  state_.state = state;
  state_.detail = std::move(detail);
  StateReport brief;
  brief.state = state;
  brief.detail = state_.detail;
  task_.Send(Line(SerializeMessage(brief)));
}

void NodeReport::Report(NodeState state, std::string detail) {
  Enter(state, std::move(detail));
  link_->Send(SerializeMessage(state_));
}

void NodeReport::EnterDraining(std::string detail) {
  if (state_.state == NodeState::kRunning) Enter(NodeState::kDraining, std::move(detail));
}

void NodeReport::EndFeed(const control::EndFeed& ended) {
  feed_end_ = ended;
  EnterDraining("its feed has ended");
}

void NodeReport::Relay(NodeMessage message, RepeatedWarnings& warnings) {
  if (auto* change = std::get_if<StateReport>(&message)) {
    if (change->feed.has_value()) state_.feed = change->feed;
    // To the others a node has no state of its own before it runs.
    const bool runs = change->state == NodeState::kRunning;
    Report(runs ? NodeState::kRunning : NodeState::kRegistered, change->detail);
    if (feed_end_.has_value()) EnterDraining("its feed has ended");
  } else if (auto* metrics = std::get_if<MetricsReport>(&message)) {
    for (const std::string& dropped : metrics->metrics.dropped) {
      warnings.Log("the program reported something that is left out: " + dropped);
    }
    metrics_ = std::move(metrics->metrics.kept);
  } else if (const auto* steps = std::get_if<StepReport>(&message)) {
    link_->Send(SerializeMessage(*steps));
  } else if (const auto* ready = std::get_if<GroupReady>(&message)) {
    link_->Send(SerializeMessage(*ready));
  } else if (std::holds_alternative<FeedTerminated>(message)) {
    link_->Send(SerializeMessage(FeedTerminated{}));
  }
}

std::string NodeReport::Doing() const {
  std::string doing(NodeStateName(state_.state));
  if (!state_.detail.empty()) doing += fmt::format(" ({})", state_.detail);
  for (const char* const name : kWhereItIs) {
    const auto metric = metrics_.find(name);
    if (metric == metrics_.end()) continue;
    std::visit([&](const auto& value) { doing += fmt::format(", {}={}", name, value); },
               metric->second);
  }
  return doing;
}

Metrics NodeReport::AllMetrics() const {
  Metrics metrics = metrics_;
  if (silence_ >= kSilenceToTell) {
    for (const KnownMetric& known : kKnownMetrics) {
      if (known.while_it_answers) metrics.erase(std::string(known.name));
    }
  }
  if (tells_silence_) {
    metrics[kSilenceMetric] =
        std::int64_t{std::chrono::floor<std::chrono::seconds>(silence_).count()};
  }
  return metrics;
}

void NodeReport::SendHeartbeat() {
  // Once told, its end is told, too: the coordinator keeps what it last heard.
  tells_silence_ = tells_silence_ || silence_ >= kSilenceToTell;
  link_->SendLatest(Heartbeat::kType, [this] {
    return SerializeMessage(Heartbeat{.metrics = WithUsage(AllMetrics(), state_.pid, gpus_)});
  });
}

void NodeReport::TellFormed() { task_.Send(Line(SerializeMessage(NodesFormed{}))); }

void NodeReport::StandBy(const control::StandBy& other) {
  task_.Send(Line(SerializeMessage(other)));
}

void NodeReport::TellFailure(FailureReport report) {
  const std::string text = SerializeMessage(FailureMessage{std::move(report)});
  if (link_ != nullptr) {
    // A node that fails before it is registered still needs to say which one it is.
    if (!registered_) SendRegister();
    SendHeartbeat();  // The ledger's counts are those of the last one.
    link_->Send(text);
  }
  task_.Send(Line(text));
}

void NodeReport::TellDone() {
  state_.pid = 0;
  silence_ = Clock::Duration::zero();
  SendHeartbeat();
  link_->Send(SerializeMessage(Done{}));
  Enter(NodeState::kDone, "");
}

}  // namespace tfos::control
