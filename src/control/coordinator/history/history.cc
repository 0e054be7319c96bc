#include "control/coordinator/history/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text/json_fields.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
/// For all samples of a tier: 12 MiB.
constexpr std::size_t kMostValues = 3u << 20;
/// What a node reports, roughly.
constexpr std::size_t kTypicalNames = 32;
constexpr std::size_t kFewestMoments = 88;
constexpr std::size_t kMostMoments = 360;
/// Large clusters are looked at less often: one interval more for each so many nodes.
constexpr std::size_t kNodesPerInterval = 200;
/// Over less, heartbeats that come a little early or late would show as bumps.
constexpr milliseconds kRateWindow(5000);

std::size_t MomentsFor(std::size_t nodes) {
  return std::clamp(kMostValues / (kTypicalNames * std::max<std::size_t>(nodes, 1)), kFewestMoments,
                    kMostMoments);
}

std::optional<double> NumberOf(const MetricValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::nullopt;
}

void AppendNumber(float value, std::string& json) {
  if (!std::isfinite(value)) {
    json += "null";
  } else {
    fmt::format_to(std::back_inserter(json), "{:.6g}", value);
  }
}

void AppendNumbers(std::string_view name, const std::vector<float>& values, std::string& json) {
  json += fmt::format("\"{}\":[", name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json += ',';
    AppendNumber(values[i], json);
  }
  json += ']';
}

/// What a counter grew by in a second, over the last samples.
std::vector<float> Rates(const std::vector<milliseconds>& times, const std::vector<float>& values) {
  std::vector<float> rates(values.size(), kUnknown);
  std::size_t from = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    while (from + 1 < i && times[i] - times[from + 1] >= kRateWindow) ++from;
    while (from + 1 < i && std::isnan(values[from])) ++from;
    const float grown = values[i] - values[from];
    const float seconds = std::chrono::duration<float>(times[i] - times[from]).count();
    // NaN compares as false. Less than before: the program counts anew.
    if (grown >= 0 && seconds > 0) rates[i] = grown / seconds;
  }
  return rates;
}

/// The sum, mean and extremes of all nodes that report a name, at each moment.
struct Spread {
  explicit Spread(std::size_t moments)
      : sum(moments, kUnknown), mean(sum), least(sum), most(sum), count(moments) {}

  void Add(const std::vector<float>& curve) {
    for (std::size_t i = 0; i < curve.size(); ++i) {
      if (!std::isfinite(curve[i])) continue;
      const bool first = count[i]++ == 0;
      sum[i] = first ? curve[i] : sum[i] + curve[i];
      mean[i] = sum[i] / static_cast<float>(count[i]);
      least[i] = first ? curve[i] : std::min(least[i], curve[i]);
      most[i] = first ? curve[i] : std::max(most[i], curve[i]);
    }
  }

  std::vector<float> sum;
  std::vector<float> mean;
  std::vector<float> least;
  std::vector<float> most;
  std::vector<int> count;
};

}  // namespace

History::History(std::size_t nodes, milliseconds interval)
    : nodes_(nodes),
      interval_(interval),
      ended_(nodes),
      recent_{.table = SampleTable(MomentsFor(nodes),
                                   interval * static_cast<int>(1 + nodes / kNodesPerInterval),
                                   SampleTable::WhenFull::kDropOldest),
              .silent = ended_},
      whole_{.table = SampleTable(MomentsFor(nodes), interval, SampleTable::WhenFull::kHalve),
             .silent = ended_} {}

void History::Update(int node_id, const Metrics& metrics) {
  const auto node = static_cast<std::size_t>(node_id);
  if (node >= nodes_ || ended_[node]) return;
  for (const KnownMetric& metric : kKnownMetrics) {
    if (!IsForgottenBy(metrics, metric)) continue;
    const auto known = number_of_.find(metric.name);
    if (known != number_of_.end()) names_[known->second].latest[node] = kUnknown;
  }
  for (const auto& [name, value] : metrics) {
    const std::optional<double> number = NumberOf(value);
    auto known = number_of_.find(name);
    if (!number.has_value()) {
      // A loss that isn't a number any more must not stay at its last one.
      if (known != number_of_.end()) names_[known->second].latest[node] = kUnknown;
      continue;
    }
    if (known == number_of_.end()) {
      const KnownMetric* const metric = FindKnownMetric(name);
      if (metric != nullptr && !metric->has_curve) continue;
      // Names of tfos have their place whatever a program reports: rates are calculated from them.
      // So has the loss, which all programs have.
      const bool counts = metric == nullptr && name != "loss";
      if (counts && names_of_programs_ == kMostNames) continue;
      names_of_programs_ += counts ? 1 : 0;
      known = number_of_.emplace(name, names_.size()).first;
      names_.push_back({.name = name,
                        .counter = KindOfMetric(name) == MetricKind::kCounter,
                        .of_program = metric == nullptr,
                        .latest = std::vector<float>(nodes_, kUnknown),
                        .first = std::vector<double>(nodes_, kUnknown)});
      for (Tier* tier : {&recent_, &whole_}) tier->columns.emplace_back(nodes_, -1);
    }
    const std::size_t at = known->second;
    names_[at].latest[node] = names_[at].Kept(*number, node);
    for (Tier* tier : {&recent_, &whole_}) {
      int& column = tier->columns[at][node];
      if (column < 0) column = static_cast<int>(tier->table.AddColumn());
    }
  }
}

float History::Name::Kept(double value, std::size_t node) {
  const auto plain = static_cast<float>(value);
  if (!counter || !std::isfinite(plain)) return plain;
  // A step of 200,000,000 and the next one are the same float.
  if (!std::isfinite(first[node])) first[node] = value;
  return static_cast<float>(value - first[node]);
}

void History::EndNode(int node_id) {
  const auto node = static_cast<std::size_t>(node_id);
  if (node < nodes_) ended_[node] = true;
}

void History::BeginNode(int node_id) {
  const auto node = static_cast<std::size_t>(node_id);
  if (node >= nodes_) return;
  // What its last process said is not true of one that comes again.
  if (ended_[node]) {
    for (Name& name : names_) name.latest[node] = kUnknown;
  }
  ended_[node] = recent_.silent[node] = whole_.silent[node] = false;
}

void History::Sample(milliseconds now) {
  Sample(recent_, now);
  Sample(whole_, now);
}

void History::SampleAtOnce(milliseconds now) {
  for (Tier* tier : {&recent_, &whole_}) {
    tier->table.BeginOrPutOff(now);
    TakeLatest(*tier);
  }
}

void History::Sample(Tier& tier, milliseconds now) const {
  if (tier.table.Begin(now)) TakeLatest(tier);
}

void History::TakeLatest(Tier& tier) const {
  for (std::size_t name = 0; name < names_.size(); ++name) {
    for (std::size_t node = 0; node < nodes_; ++node) {
      const int column = tier.columns[name][node];
      if (column < 0 || tier.silent[node]) continue;
      tier.table.Set(static_cast<std::size_t>(column), names_[name].latest[node]);
    }
  }
  tier.silent = ended_;
}

std::vector<float> History::Curve(const Tier& tier, std::size_t name, std::size_t node) const {
  const int column = tier.columns[name][node];
  if (column < 0) return {};
  const std::vector<float>& values = tier.table.column(static_cast<std::size_t>(column));
  return names_[name].counter ? Rates(tier.table.times(), values) : values;
}

std::optional<double> History::Rate(std::string_view name, int node_id) const {
  const auto known = number_of_.find(name);
  const auto node = static_cast<std::size_t>(node_id);
  if (known == number_of_.end() || node >= nodes_ || !names_[known->second].counter) {
    return std::nullopt;
  }
  const std::vector<float> curve = Curve(recent_, known->second, node);
  if (curve.empty() || !std::isfinite(curve.back())) return std::nullopt;
  return curve.back();
}

void History::AppendSeries(const Tier& tier, std::size_t name, const std::vector<int>& nodes,
                           std::string& json) const {
  Spread spread(tier.table.times().size());
  std::vector<std::pair<int, std::vector<float>>> own;
  for (std::size_t node = 0; node < nodes_; ++node) {
    std::vector<float> curve = Curve(tier, name, node);
    if (curve.empty()) continue;
    spread.Add(curve);
    const int id = static_cast<int>(node);
    if (std::ranges::find(nodes, id) != nodes.end()) own.emplace_back(id, std::move(curve));
  }
  std::string quoted = WriteJsonLine(names_[name].name);
  json += fmt::format(R"({}:{{"kind":"{}","source":"{}",)", quoted,
                      names_[name].counter ? "rate" : "value",
                      names_[name].of_program ? "program" : "tfos");
  AppendNumbers("sum", spread.sum, json);
  json += ',';
  AppendNumbers("mean", spread.mean, json);
  json += ',';
  AppendNumbers("min", spread.least, json);
  json += ',';
  AppendNumbers("max", spread.most, json);
  json += ",\"nodes\":{";
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (i > 0) json += ',';
    AppendNumbers(std::to_string(own[i].first), own[i].second, json);
  }
  json += "}}";
}

std::string History::Json(Range range, const std::vector<int>& nodes) const {
  const Tier& tier = range == Range::kRecent ? recent_ : whole_;
  std::string json = fmt::format("\"interval_ms\":{},\"times\":[", tier.table.interval().count());
  for (std::size_t i = 0; i < tier.table.times().size(); ++i) {
    fmt::format_to(std::back_inserter(json), "{}{}", i > 0 ? "," : "",
                   tier.table.times()[i].count());
  }
  json += "],\"series\":{";
  for (std::size_t name = 0; name < names_.size(); ++name) {
    if (name > 0) json += ',';
    AppendSeries(tier, name, nodes, json);
  }
  json += '}';
  return json;
}

}  // namespace tfos::control
