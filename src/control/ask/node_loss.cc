#include "control/ask/node_loss.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "base/text/json_fields.h"
#include "base/time/deadline.h"
#include "control/ask/http_get.h"
#include "control/messages/parts/node_info.h"

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerLimit{5'000};
/// How long to wait for a failure that the coordinator has not heard of yet.
constexpr milliseconds kFailureWait{2'000};
constexpr unsigned kOk = 200;

/// Null for what is not an object; one that is nested without end is none.
json Parse(const std::optional<std::string>& answer) {
  if (!answer) return {};
  auto parsed = ParseJsonObject(*answer, answer->size(), "the answer");
  return parsed.ok() ? std::move(parsed).value() : json();
}

bool IsIn(const json& node, NodeState state) {
  return node.value("state", json()) == NodeStateName(state);
}

bool HasEnded(const json& node) {
  // One that came in place of a lost node gets rows of later jobs only.
  return IsIn(node, NodeState::kDone) || IsIn(node, NodeState::kLost) ||
         IsIn(node, NodeState::kStopped) || node.value("joins", json()) == true;
}

bool ProgramsHaveReturned(const std::set<int>& fed, const AskCoordinator& ask) {
  const json status = Parse(ask("/v1/status", kAnswerLimit));
  if (!status.is_object() || !status.value("failure", json()).is_null()) return false;
  const json nodes = status.value("nodes", json());
  return nodes.is_array() && std::ranges::all_of(nodes, [&](const json& node) {
           if (!node.is_object()) return false;
           const json id = node.value("node_id", json());
           if (!id.is_number_integer()) return false;
           return !fed.contains(id.get<int>()) || HasEnded(node);
         });
}

Status Bad(std::string_view what) {
  return {ErrorKind::kBadInput, fmt::format("the plan of the feed {}", what)};
}

Result<json> ParsePlan(std::string_view plan) {
  json parsed = json::parse(plan, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Bad("is not a JSON object");
  return parsed;
}

Result<CoordinatorAddress> AddressIn(const json& plan) {
  const json coordinator = plan.value("coordinator", json());
  const json host = coordinator.is_object() ? coordinator.value("address", json()) : json();
  const json port = coordinator.is_object() ? coordinator.value("port", json()) : json();
  const json key = plan.value("ask_key", json());
  const json encrypt = plan.value("encrypt", json());
  if (!host.is_string() || !port.is_number_unsigned() || port.get<std::uint64_t>() > 65'535 ||
      !key.is_string() || !encrypt.is_string()) {
    return Bad("does not say where the coordinator is");
  }
  TFOS_ASSIGN_OR_RETURN(const Secret secret, Secret::FromHex(key.get<std::string>()));
  TFOS_ASSIGN_OR_RETURN(const net::Encryption encryption,
                        net::EncryptionFromWord(encrypt.get<std::string>()));
  return CoordinatorAddress{.host = host.get<std::string>(),
                            .port = port.get<std::uint16_t>(),
                            .key = secret,
                            .encryption = encryption};
}

std::set<int> FedNodes(const json& plan) {
  std::set<int> fed;
  for (const json& endpoint : plan.value("endpoints", json::array())) {
    if (endpoint.is_object() && endpoint.contains("node_id") &&
        endpoint["node_id"].is_number_integer()) {
      fed.insert(endpoint["node_id"].get<int>());
    }
  }
  return fed;
}

}  // namespace

NodeLoss ExplainNodeLoss(const std::set<int>& fed, const AskCoordinator& ask) {
  const NodeLoss returned{.reason = LossReason::kProgramsReturned, .failure = ""};
  if (ProgramsHaveReturned(fed, ask)) return returned;
  std::optional<std::string> failure =
      ask(fmt::format("/v1/failure?wait_ms={}", kFailureWait.count()), kAnswerLimit + kFailureWait);
  if (Parse(failure).is_object()) {
    return {.reason = LossReason::kClusterFailed, .failure = std::move(*failure)};
  }
  // The last of them may have ended while a failure was waited for.
  return ProgramsHaveReturned(fed, ask) ? returned : NodeLoss{};
}

Result<std::set<std::uint32_t>> EndedNodes(std::string_view plan, const InterruptCheck& check) {
  TFOS_ASSIGN_OR_RETURN(const json parsed, ParsePlan(plan));
  TFOS_ASSIGN_OR_RETURN(const CoordinatorAddress coordinator, AddressIn(parsed));
  const Result<HttpReply> answer = HttpGet(
      coordinator, "/v1/status", {.deadline = Deadline::After(kAnswerLimit), .check = check});
  if (!answer.ok()) {
    if (check) TFOS_RETURN_IF_ERROR(check());
    return Status(ErrorKind::kRetryLater, "ask the coordinator: " + answer.status().ToString());
  }
  const json status = Parse(answer->body);
  const json nodes = status.is_object() ? status.value("nodes", json()) : json();
  if (answer->status != kOk || !nodes.is_array()) {
    return Status(ErrorKind::kRetryLater, "the coordinator's answer was not understood");
  }
  if (!status.value("failure", json()).is_null()) {
    return Status(ErrorKind::kReconnect, "the cluster has failed");
  }
  std::set<std::uint32_t> ended;
  for (const json& node : nodes) {
    const json id = node.is_object() ? node.value("node_id", json()) : json();
    if (!id.is_number_unsigned()) continue;
    if (HasEnded(node) || IsIn(node, NodeState::kFailed)) ended.insert(id.get<std::uint32_t>());
  }
  return ended;
}

Result<NodeLoss> WhyNodeWasLost(std::string_view plan, const InterruptCheck& check) {
  TFOS_ASSIGN_OR_RETURN(const json parsed, ParsePlan(plan));
  TFOS_ASSIGN_OR_RETURN(const CoordinatorAddress coordinator, AddressIn(parsed));
  Status interrupted = Status::Ok();
  const auto remembering = [&]() -> Status {
    if (interrupted.ok() && check) interrupted = check();
    return interrupted;
  };
  const auto ask = [&](const std::string& target,
                       milliseconds limit) -> std::optional<std::string> {
    if (!interrupted.ok()) return std::nullopt;
    auto answer =
        HttpGet(coordinator, target, {.deadline = Deadline::After(limit), .check = remembering});
    if (!answer.ok() || answer->status != kOk) return std::nullopt;
    return std::move(answer->body);
  };
  NodeLoss loss = ExplainNodeLoss(FedNodes(parsed), ask);
  TFOS_RETURN_IF_ERROR(interrupted);
  return loss;
}

}  // namespace tfos::control
