#include "simulation/driver.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <variant>

namespace tfos::simulation {
namespace {

constexpr milliseconds kPipe{1};
constexpr milliseconds kRetry{200};  // Of a feeder that can't reach a node.
/// For programs to make the steps that were granted, however slow all messages are.
constexpr std::chrono::minutes kPatience{10};

}  // namespace

Driver::Driver(const Scenario& scenario, Scheduler& scheduler, Random& random, Trace& trace,
               Watch& watch, SimulatedCoordinator& coordinator, FindNode find)
    : scenario_(scenario),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      watch_(watch),
      coordinator_(coordinator),
      find_(std::move(find)),
      to_coordinator_(
          scheduler, random, kPipe,
          [this](const control::DriverMessage& message) { coordinator_.FromDriver(message); }),
      nodes_(static_cast<std::size_t>(scenario.nodes())) {}

void Driver::Tell(control::DriverMessage message) { to_coordinator_.Send(std::move(message)); }

void Driver::On(const control::CoordinatorEvent& event) {
  if (const auto* changed = std::get_if<control::NodeChanged>(&event)) {
    const control::NodeInfo& info = changed->node;
    Told& node = nodes_[static_cast<std::size_t>(info.node_id)];
    if (node.state == control::NodeState::kLost && info.state != node.state) {
      terminated_.erase(info.node_id);
    }
    node = {.state = info.state, .joins = info.joins, .incarnation = -1};
    if (info.feed) {
      const std::string& socket = info.feed->socket;
      std::from_chars(socket.data() + 1, socket.data() + socket.size(), node.incarnation);
    }
  } else if (std::holds_alternative<control::ClusterFormed>(event)) {
    formed_ = true;
  } else if (std::holds_alternative<control::ClusterFailed>(event)) {
    failed_ = true;
  } else if (const auto* terminated = std::get_if<control::NodeFeedTerminated>(&event)) {
    terminated_.insert(terminated->node_id);
  } else if (const auto* begun = std::get_if<control::EpochBegins>(&event)) {
    begun_ = begun->number;
  } else if (const auto* drained = std::get_if<control::EpochDrained>(&event)) {
    drained_ = drained->number;
  } else if (const auto* waits = std::get_if<control::TrainingWaits>(&event)) {
    waiting_ = waits->reason;
  } else if (std::holds_alternative<control::Finished>(event)) {
    finished_ = true;
  }
  Advance();
}

void Driver::Stop() {
  if (failed_ || std::exchange(stopped_, true)) return;
  if (scenario_.fed && random_.Chance(70)) {
    stage_ = Stage::kAwaitsPrograms;
    Tell(control::EndFeed{.at_once = true});
    scheduler_.After(kPatience, [this] { EndPrograms(); });
    return Advance();
  }
  stage_ = Stage::kAwaitsFinished;
  Tell(control::Stop{.reason = "the user asked for it", .grace = seconds(5)});
}

void Driver::EndPrograms() {
  if (stage_ != Stage::kAwaitsPrograms) return;
  const bool undisturbed = std::ranges::all_of(
      scenario_.faults, [](const Fault& fault) { return fault.kind == FaultKind::kStop; });
  if (formed_ && undisturbed) watch_.Break("programs do not end though the feed was stopped");
  stage_ = Stage::kAwaitsFinished;
  Tell(control::Stop{.reason = "the user asked for it", .grace = seconds(5)});
}

void Driver::Advance() {
  while (AdvanceOnce()) {
  }
}

bool Driver::TakesPart(const Told& node) const {
  return node.state != control::NodeState::kLost && node.state != control::NodeState::kExpected &&
         !node.joins;
}

std::set<int> Driver::Gone() const {
  std::set<int> gone;
  for (int id = scenario_.services; id < scenario_.nodes(); ++id) {
    if (!TakesPart(nodes_[static_cast<std::size_t>(id)])) gone.insert(id);
  }
  return gone;
}

bool Driver::NobodyWantsRows() const {
  for (int id = scenario_.services; id < scenario_.nodes(); ++id) {
    const Told& node = nodes_[static_cast<std::size_t>(id)];
    if (node.state != control::NodeState::kLost && !TakesPart(node)) continue;
    const bool is_content = node.state == control::NodeState::kDone ||
                            node.state == control::NodeState::kStopped ||
                            node.state == control::NodeState::kLost || terminated_.contains(id);
    if (!is_content) return false;
  }
  return true;
}

bool Driver::AllListen() const {
  return std::ranges::none_of(
      nodes_.begin() + scenario_.services, nodes_.end(), [this](const Told& node) {
        return TakesPart(node) && !control::IsFinal(node.state) && node.incarnation < 0;
      });
}

control::DriverMessage Driver::Question(bool drained) {
  number_ = ++questions_;
  losses_ = watch_.losses();
  const std::string queue = Reader::NameOf(queue_);
  if (drained) return control::AskDrained{.queue = queue, .epoch = epoch_, .number = number_};
  return control::BeginEpoch{.queue = queue, .epoch = epoch_, .number = number_};
}

bool Driver::AdvanceOnce() {
  if (failed_ && stage_ != Stage::kAwaitsFinished) {
    stage_ = Stage::kAwaitsFinished;
    return true;
  }
  switch (stage_) {
    case Stage::kForms:
      if (!formed_) return false;
      stage_ = scenario_.fed ? Stage::kBegins : Stage::kAwaitsPrograms;
      return true;
    case Stage::kBegins:
      if (epoch_ == static_cast<int>(scenario_.rows.front().size())) {
        stage_ = Stage::kEndsFeed;
        return true;
      }
      if (NobodyWantsRows()) {
        EndEpoch(/*drained=*/false);
        return true;
      }
      if (!scenario_.late_nodes) {
        stage_ = Stage::kFeeds;
        return true;
      }
      Tell(Question(/*drained=*/false));
      stage_ = Stage::kAwaitsBegun;
      return false;
    case Stage::kAwaitsBegun:
      if (begun_ < number_ && !NobodyWantsRows()) return false;
      stage_ = Stage::kFeeds;
      return true;
    case Stage::kFeeds:
      if (NobodyWantsRows()) {
        EndEpoch(/*drained=*/false);
        return true;
      }
      if (!AllListen()) return false;
      BeginJob();
      return false;
    case Stage::kAwaitsJob:
      if (left_ > 0) return false;
      if (Gone() != gone_) {
        stage_ = Stage::kFeeds;
        return true;
      }
      Tell(Question(/*drained=*/true));
      stage_ = Stage::kAwaitsDrained;
      return false;
    case Stage::kAwaitsDrained:
      if (Gone() != gone_) {
        stage_ = Stage::kFeeds;
        return true;
      }
      if (drained_ != number_ && !NobodyWantsRows()) return false;
      EndEpoch(drained_ == number_);
      return true;
    case Stage::kEndsFeed:
      Tell(control::EndFeed{});
      stage_ = Stage::kAwaitsPrograms;
      return true;
    case Stage::kAwaitsPrograms: {
      const bool over =
          std::ranges::all_of(nodes_.begin() + scenario_.services, nodes_.end(),
                              [](const Told& node) { return control::IsFinal(node.state); });
      if (!over) return false;
      stage_ = Stage::kAwaitsFinished;
      Tell(control::Stop{.reason = "the cluster is shut down", .grace = seconds(5)});
      return false;
    }
    case Stage::kAwaitsFinished:
      return false;
  }
  return false;
}

void Driver::EndEpoch(bool drained) {
  watch_.EpochEnded(queue_, epoch_, drained);
  Tell(control::EndEpoch{.queue = Reader::NameOf(queue_), .epoch = epoch_});
  queue_ = (queue_ + 1) % static_cast<int>(scenario_.rows.size());
  if (queue_ == 0) ++epoch_;
  stage_ = Stage::kBegins;
}

void Driver::BeginJob() {
  stage_ = Stage::kAwaitsJob;
  gone_ = Gone();
  plan_.clear();
  chunks_.clear();
  for (int id = scenario_.services; id < scenario_.nodes(); ++id) {
    const Told& node = nodes_[static_cast<std::size_t>(id)];
    if (TakesPart(node) && !control::IsFinal(node.state)) plan_.push_back({id, node.incarnation});
  }
  // The same rows in the same chunks, each time.
  const int rows =
      scenario_.rows[static_cast<std::size_t>(queue_)][static_cast<std::size_t>(epoch_)];
  for (int first = 0; first < rows; first += scenario_.chunk) {
    std::vector<int>& chunk = chunks_.emplace_back();
    for (int row = first; row < std::min(rows, first + scenario_.chunk); ++row) {
      chunk.push_back(row);
    }
  }
  left_ = chunks_.size() + 1;
  trace_.Note("the driver feeds epoch {} of queue {} to {} nodes", epoch_, queue_, plan_.size());
  const auto most = static_cast<int>(scenario_.message_delay.count());
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    scheduler_.After(microseconds(random_.Between(1, 3 * most)),
                     [this, chunk] { FeedChunk(chunk); });
  }
  scheduler_.After(microseconds(random_.Between(1, 3 * most)), [this] { EndChunk(); });
}

void Driver::EndChunk() {
  --left_;
  if (left_ == 0) Advance();
}

void Driver::FeedChunk(std::size_t chunk) {
  if (failed_ || stopped_) return EndChunk();
  const auto number = static_cast<int>(chunk);
  std::vector<Node*> there;
  for (const Place& place : plan_) {
    if (coordinator_.HasEnded(place.node_id, place.incarnation)) continue;
    Node* const node = find_(place.incarnation);
    // One that does not answer, and has not ended as the coordinator knows, may have the rows.
    if (node->is_dead() || node->is_frozen()) {
      scheduler_.After(kRetry, [this, chunk] { FeedChunk(chunk); });
      return;
    }
    if (node->Has(queue_, epoch_, number)) return EndChunk();
    there.push_back(node);
  }
  if (there.empty()) return EndChunk();
  const bool first = scenario_.skewed && random_.Chance(80);
  const auto chosen =
      first ? 0u : static_cast<std::size_t>(random_.Between(0, static_cast<int>(there.size()) - 1));
  there[chosen]->Accept(queue_, epoch_, number, chunks_[chunk]);
  EndChunk();
}

std::string Driver::Describe() const {
  constexpr const char* kStages[] = {"waits for the cluster to form",
                                     "begins an epoch",
                                     "waits for epoch_begins",
                                     "waits for nodes that listen",
                                     "feeds",
                                     "waits for epoch_drained",
                                     "ends the feed",
                                     "waits for the programs",
                                     "waits for the end"};
  return fmt::format("the driver {} (epoch {} of queue {}, {} chunks left, question {}); {}",
                     kStages[static_cast<int>(stage_)], epoch_, queue_, left_, number_,
                     waiting_.empty() ? "nobody is waited for" : waiting_);
}

}  // namespace tfos::simulation
