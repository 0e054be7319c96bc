#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_HISTORY_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_HISTORY_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/coordinator/history/sample_table.h"
#include "control/messages/parts/metrics.h"

namespace tfos::control {

/// What the nodes' numbers were over time: of the last minutes closely, and of the whole run in
/// ever longer steps. Its memory depends on the numbers of nodes and names alone. With 32 names it
/// is at most 25 MB for up to 1,117 nodes, and 23 kB for each node of a larger cluster: 225 MB for
/// 10,000 nodes. With 60, the maximum, it is nearly twice as much.
///
/// A node that has ended counts once more, with its last values, and then has none: sums and means
/// are those of the nodes that still run.
///
/// Counters are kept as they were reported and told as what they grew by in a second, so that no
/// sample that is left out makes a rate wrong.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none; of a program's names
/// beyond kMostNames the later ones are left out. Units: times count from the start of the cluster.
class History {
 public:
  enum class Range { kRecent, kWhole };
  /// Of programs, besides `loss`. Those of tfos are not among them.
  static constexpr std::size_t kMostNames = 32;
  /// Nodes whose own curves one answer holds.
  static constexpr std::size_t kMostNodes = 64;

  /// `interval`: between two calls of `Sample`.
  History(std::size_t nodes, std::chrono::milliseconds interval);

  /// Takes what a node has reported in a heartbeat: its latest values, until it reports others or
  /// ends.
  void Update(int node_id, const Metrics& metrics);
  /// The node has ended: what it reports later changes nothing.
  void EndNode(int node_id);
  /// Another one has come in its place.
  void BeginNode(int node_id);
  /// Takes the latest values as those of `now`, if it is time for that.
  void Sample(std::chrono::milliseconds now);
  /// Takes them in any case. If it is too early, they replace those of the last sample.
  void SampleAtOnce(std::chrono::milliseconds now);

  /// The members `interval_ms`, `times` and `series` of an object of JSON, with the curves of
  /// `nodes` beside the sums and means of all (docs/formats/control-protocol.md).
  std::string Json(Range range, const std::vector<int>& nodes) const;

  /// What a node's counter has grown by in a second, at the latest sample; nullopt where it did not
  /// report it, or has ended.
  std::optional<double> Rate(std::string_view name, int node_id) const;

  std::size_t nodes() const { return nodes_; }

 private:
  struct Tier {
    SampleTable table;
    /// By name, and then by node: the column; -1 where a node never reported the name.
    std::vector<std::vector<int>> columns = {};
    /// By node: it had ended before the latest moment.
    std::vector<bool> silent;
  };
  /// What a node has reported last; NaN: nothing.
  struct Name {
    std::string name;
    bool counter = false;
    bool of_program = false;
    std::vector<float> latest;  ///< By node; of a counter what it has grown by since the first.
    std::vector<double> first;  ///< What a counter began with.

    float Kept(double value, std::size_t node);
  };

  void Sample(Tier& tier, std::chrono::milliseconds now) const;
  void TakeLatest(Tier& tier) const;
  /// The numbers of one node over time, as they are told; empty when it has none.
  std::vector<float> Curve(const Tier& tier, std::size_t name, std::size_t node) const;
  void AppendSeries(const Tier& tier, std::size_t name, const std::vector<int>& nodes,
                    std::string& json) const;

  const std::size_t nodes_;
  const std::chrono::milliseconds interval_;
  std::vector<Name> names_;
  std::size_t names_of_programs_ = 0;  // without `loss`
  std::map<std::string, std::size_t, std::less<>> number_of_;
  std::vector<bool> ended_;  // by node
  Tier recent_;
  Tier whole_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_HISTORY_H_
