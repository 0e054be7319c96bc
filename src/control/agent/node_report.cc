#include "control/agent/node_report.h"

#include <utility>
#include <variant>

#include "control/messages/launch_messages.h"

namespace tfos::control {
namespace {

std::string Line(std::string message) { return std::move(message) + '\n'; }

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

void NodeReport::EndFeed() {
  feed_ended_ = true;
  EnterDraining("its feed has ended");
}

void NodeReport::Relay(NodeMessage message, RepeatedWarnings& warnings) {
  if (auto* change = std::get_if<StateReport>(&message)) {
    if (change->feed.has_value()) state_.feed = change->feed;
    // To the others a node has no state of its own before it runs.
    const bool runs = change->state == NodeState::kRunning;
    Report(runs ? NodeState::kRunning : NodeState::kRegistered, change->detail);
    if (feed_ended_) EnterDraining("its feed has ended");
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

void NodeReport::SendHeartbeat() {
  link_->SendLatest(Heartbeat::kType,
                    [this] { return SerializeMessage(Heartbeat{.metrics = metrics_}); });
}

void NodeReport::TellFormed() { task_.Send(Line(SerializeMessage(NodesFormed{}))); }

void NodeReport::TellFailure(FailureReport report) {
  const std::string text = SerializeMessage(FailureMessage{std::move(report)});
  if (link_ != nullptr) {
    // A node that fails before it is registered still needs to say which one it is.
    if (!registered_) SendRegister();
    link_->Send(text);
  }
  task_.Send(Line(text));
}

void NodeReport::TellDone() {
  state_.pid = 0;
  SendHeartbeat();
  link_->Send(SerializeMessage(Done{}));
  Enter(NodeState::kDone, "");
}

}  // namespace tfos::control
