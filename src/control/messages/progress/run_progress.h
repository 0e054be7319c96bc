#ifndef TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_H_
#define TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

// PROGRESS: how far the training of a cluster has come.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

/// What is not known is missing. Of nodes that differ, the numbers are those of the one that is
/// behind, means, or sums.
struct RunProgress {
  std::optional<std::int64_t> epoch;   ///< From 1.
  std::optional<std::int64_t> epochs;  ///< Of all there will be.
  std::optional<std::int64_t> step;
  std::optional<double> done;  ///< The share of the training that is done, 0 to 1.
  std::optional<double> left_seconds;
  std::optional<double> loss;  ///< The mean of the nodes; missing if there is a `bad_loss`.
  std::string bad_loss;        ///< Of a training that has diverged: "nan on worker:1". Else empty.
  std::optional<double> steps_per_second;
  std::optional<double> rows_per_second;  ///< Of all nodes together.
  std::string waits;                      ///< Most of the time: "nodes", "spark" or "".
  std::string nodes;                      ///< What nodes do that do not train yet, for people.
  std::string silent;                     ///< "no sign of life on worker:1 for 24 s", or empty.
  std::string stuck;                      ///< "no step on worker:1 for 1:10", or empty.
  std::string text;                       ///< All of it in a line, for people; may be empty.

  bool operator==(const RunProgress&) const = default;
};

/// The line of the other fields: "epoch 2 of 5, step 120, 37 %, 83 s left, loss 0.1234, ...".
/// Threads: a pure function.
std::string ProgressText(const RunProgress& progress);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_H_
