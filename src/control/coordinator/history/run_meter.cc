#include "control/coordinator/history/run_meter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/format.h"
#include "control/messages/parts/metric_names.h"
#include "control/messages/progress/silence.h"

namespace tfos::control {
namespace {

using Nodes = std::vector<NodeView>;

std::vector<double> NumbersOf(const Nodes& nodes, const char* name) {
  std::vector<double> numbers;
  for (const NodeView& node : nodes) {
    if (const auto number = NumberOf(*node.metrics, name)) numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> RatesOf(const Nodes& nodes, const History& history, const char* name) {
  std::vector<double> rates;
  for (const NodeView& node : nodes) {
    if (const auto rate = history.Rate(name, node.info->node_id)) rates.push_back(*rate);
  }
  return rates;
}

std::optional<double> Least(const std::vector<double>& numbers) {
  if (numbers.empty()) return std::nullopt;
  return *std::ranges::min_element(numbers);
}

std::optional<double> Sum(const std::vector<double>& numbers) {
  if (numbers.empty()) return std::nullopt;
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum;
}

std::optional<double> Mean(const std::vector<double>& numbers) {
  const std::optional<double> sum = Sum(numbers);
  if (!sum.has_value()) return std::nullopt;
  return *sum / static_cast<double>(numbers.size());
}

std::optional<std::int64_t> Whole(std::optional<double> number) {
  constexpr double kMost = 9e18;
  if (!number.has_value() || !(std::abs(*number) < kMost)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

Nodes TrainingAmong(const Nodes& nodes) {
  Nodes training;
  std::ranges::copy_if(nodes, std::back_inserter(training),
                       [](const NodeView& node) { return node.info->rank >= 0; });
  return training;
}

/// Those that say how far training is: the ones that run. At the end those that came to it, if any
/// did.
Nodes Telling(const Nodes& training) {
  const auto those = [&](const auto& fits) {
    Nodes some;
    std::ranges::copy_if(training, std::back_inserter(some),
                         [&](const NodeView& node) { return fits(node.info->state); });
    return some;
  };
  if (Nodes run = those([](NodeState state) { return !IsFinal(state); }); !run.empty()) return run;
  if (Nodes done = those([](NodeState state) { return state == NodeState::kDone; });
      !done.empty()) {
    return done;
  }
  return training;
}

/// Of those that tell, the ones that have been there from the start: a node that comes later is
/// behind until it has passed over what the others have trained on. All, where each came later.
Nodes WithoutLateOnes(const Nodes& telling) {
  Nodes some;
  std::ranges::copy_if(telling, std::back_inserter(some),
                       [](const NodeView& node) { return !node.came_late; });
  return some.empty() ? telling : some;
}

/// Of a counter of the feed, also of lost nodes that others came in place of.
double SumOfAll(const Nodes& nodes, const char* name) {
  double sum = Sum(NumbersOf(nodes, name)).value_or(0);
  for (const NodeView& node : nodes) {
    if (node.before != nullptr) sum += NumberOf(*node.before, name).value_or(0);
  }
  return sum;
}

bool StandsStill(const NodeView& node) {
  return SecondsSilent(*node.info, *node.metrics) > 0 ||
         SecondsWithoutStep(*node.info, *node.metrics) > 0;
}

/// What most of the nodes do that do not train: "importing TensorFlow", or "2 of 3 nodes: ...".
std::string DoingAmong(const Nodes& nodes) {
  std::map<std::string, std::size_t> count;
  for (const NodeView& node : nodes) {
    const NodeState state = node.info->state;
    // Rows may all have come before a program begins with them.
    const bool begins = state == NodeState::kDraining && node.info->detail != kAllFed &&
                        !node.info->detail.starts_with(kStopping);
    const bool tells = state == NodeState::kRegistered || state == NodeState::kRunning || begins;
    if (!tells) continue;
    if (std::string doing = DoingOf(*node.info, *node.metrics); !doing.empty()) {
      ++count[std::move(doing)];
    }
  }
  const auto most =
      std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
  if (most == count.end()) return "";
  if (most->second == nodes.size()) return most->first;
  return fmt::format("{} of {} nodes: {}", most->second, nodes.size(), most->first);
}

/// "nan on worker:1", "nan on 3 of 4 nodes"; empty if each loss is a number.
std::string BadLossAmong(const Nodes& nodes) {
  std::size_t count = 0;
  const NodeView* first = nullptr;
  for (const NodeView& node : nodes) {
    if (BadLossOf(*node.metrics).empty()) continue;
    if (count++ == 0) first = &node;
  }
  if (first == nullptr) return "";
  const std::string_view loss = BadLossOf(*first->metrics);
  if (count > 1) return fmt::format("{} on {} of {} nodes", loss, count, nodes.size());
  return fmt::format("{} on {}:{}", loss, first->info->job_name, first->info->task_index);
}

/// Spark computes an inference whenever the program wants it, so the driver does not say that it
/// feeds.
bool IsBeingFed(const Nodes& nodes, const Activity& activity) {
  return activity.doing.starts_with("feeding") ||
         Sum(NumbersOf(nodes, KnownName("feed_sessions"))).value_or(0) > 0;
}

std::string WhoWaits(const Nodes& telling, const History& history, const Activity& activity) {
  // What one that stands still holds up says nothing about the others, nor about Spark.
  if (std::ranges::any_of(telling, StandsStill) || !IsBeingFed(telling, activity)) return "";
  const auto mostly = [&](const char* name) {
    return Mean(RatesOf(telling, history, name)).value_or(0) >= RunMeter::kMostly;
  };
  if (mostly(KnownName("feed_node_wait_seconds"))) return "nodes";
  if (mostly(KnownName("feed_feeder_wait_seconds"))) return "spark";
  return "";
}

}  // namespace

std::string_view BadLossOf(const Metrics& metrics) {
  const auto found = metrics.find("loss");
  if (found == metrics.end()) return "";
  // JSON has no numbers for these, so nodes send Python's words for them.
  const auto* text = std::get_if<std::string>(&found->second);
  const bool bad = text != nullptr && (*text == "nan" || *text == "inf" || *text == "-inf");
  return bad ? std::string_view(*text) : std::string_view();
}

RunMeter::Share RunMeter::ShareOf(const Nodes& training, const Nodes& telling,
                                  const Activity& activity) {
  const auto told = Least(NumbersOf(WithoutLateOnes(telling), KnownName("progress")));
  Share share = told.has_value() ? Share{Source::kProgram, told} : ShareFed(training, activity);
  if (share.done.has_value()) share.done = std::clamp(*share.done, 0.0, 1.0);
  return share;
}

/// By what the driver knows of the rows that it feeds.
RunMeter::Share RunMeter::ShareFed(const Nodes& training, const Activity& activity) {
  const auto sum = [&](const char* name) { return SumOfAll(training, name); };
  const double unread = sum(KnownName("items_unread"));
  const double begun = sum(KnownName("items_delivered")) - unread +
                       sum(KnownName("items_replayed")) -
                       static_cast<double>(activity.items_before);
  if (activity.items_planned > 0) {
    const double of_left = begun / static_cast<double>(activity.items_planned);
    if (activity.epochs <= activity.epochs_before) return {Source::kItems, of_left};
    const auto before = static_cast<double>(activity.epochs_before);
    const auto epochs = static_cast<double>(activity.epochs);
    return {Source::kItems, (before + of_left * (epochs - before)) / epochs};
  }
  if (activity.epochs <= 0 || (activity.epoch_fed <= 0 && activity.epochs_before == 0)) return {};
  // Spark feeds ahead of the programs, so the share would fall once it counts items.
  const double of_fed = begun > 0 ? begun / (begun + unread) : 0;
  const std::int64_t done = std::max(activity.epoch - 1, activity.epochs_before);
  return {Source::kTasks, (static_cast<double>(done) + activity.epoch_fed * of_fed) /
                              static_cast<double>(activity.epochs)};
}

/// The epoch that the programs are at. Spark may feed some epochs ahead of it.
std::int64_t RunMeter::EpochOf(const Share& share, const Activity& activity) {
  if (share.source != Source::kItems || !share.done.has_value()) return activity.epoch;
  const double begun = std::ceil(*share.done * static_cast<double>(activity.epochs));
  return std::max<std::int64_t>(static_cast<std::int64_t>(begun), activity.epochs_before + 1);
}

RunProgress RunMeter::Measure(const Nodes& nodes, const History& history, const Activity& activity,
                              std::chrono::milliseconds now) {
  const Nodes training = TrainingAmong(nodes);
  const Share share = ShareOf(training, Telling(training), activity);
  if (std::exchange(source_, share.source) != share.source) share_ = ShareMeter();
  share_.Take(share.done, now);
  return Read(nodes, history, activity);
}

RunProgress RunMeter::Read(const Nodes& nodes, const History& history,
                           const Activity& activity) const {
  const Nodes training = TrainingAmong(nodes);
  const Nodes telling = Telling(training);
  RunProgress progress;
  const Nodes counting = WithoutLateOnes(telling);
  progress.epoch = Whole(Least(NumbersOf(counting, KnownName("epoch"))));
  progress.epochs = Whole(Least(NumbersOf(counting, KnownName("epochs"))));
  progress.step = Whole(Least(NumbersOf(counting, KnownName("step"))));
  const Share share = ShareOf(training, telling, activity);
  progress.done = share.done;
  if (!progress.epoch.has_value() && activity.epochs > 0) {
    progress.epoch = EpochOf(share, activity);
    progress.epochs = activity.epochs;
  }
  progress.bad_loss = BadLossAmong(telling);
  if (progress.bad_loss.empty()) progress.loss = Mean(NumbersOf(telling, "loss"));
  const bool over =
      std::ranges::all_of(training, [](const NodeView& node) { return IsFinal(node.info->state); });
  if (!over) {
    Nodes fed;
    std::ranges::copy_if(telling, std::back_inserter(fed),
                         [](const NodeView& node) { return node.info->feed.has_value(); });
    progress.steps_per_second = Mean(RatesOf(telling, history, KnownName("step")));
    progress.rows_per_second = Sum(RatesOf(fed, history, KnownName("rows")));
    progress.waits = WhoWaits(fed, history, activity);
    progress.nodes = DoingAmong(telling);
    progress.silent = SilenceAmong(nodes);
    progress.stuck = StuckAmong(nodes);
    // Nobody knows the end of a training that stands still, and that of one that has diverged is
    // worth no waiting.
    const bool has_end = progress.bad_loss.empty() && std::ranges::none_of(nodes, StandsStill);
    const auto left = has_end ? share_.Left() : std::nullopt;
    if (left.has_value() && progress.done.value_or(1) < 1) progress.left_seconds = left->count();
  }
  progress.text = ProgressText(progress);
  return progress;
}

}  // namespace tfos::control
