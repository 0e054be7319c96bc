#ifndef TFOS_SIMULATION_WORLD_MESH_H_
#define TFOS_SIMULATION_WORLD_MESH_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"

namespace tfos::simulation {

/// What the members of a generation do together: all the same.
struct Deed {
  enum class Kind { kShare, kSettle, kBarrier, kStep };
  Kind kind = Kind::kBarrier;
  int first = 0;   ///< Of a step its queue, of others which one it is.
  int second = 0;  ///< Of a step its epoch, or without a feed its number.

  friend bool operator==(const Deed&, const Deed&) = default;
  std::string Text() const {
    constexpr const char* kNames[] = {"share", "settle", "barrier", "step"};
    return fmt::format("{} {} {}", kNames[static_cast<int>(kind)], first, second);
  }
};

/// Where the program is, as a newcomer gets it from those that train.
struct Place {
  int round = 0;
  int step = 0;
  std::vector<int> epochs = {};  ///< That are read next, by queue.

  friend bool operator==(const Place&, const Place&) = default;
};

using NodeMask = std::uint32_t;  // by node id
constexpr NodeMask MaskOf(int node_id) { return NodeMask{1} << node_id; }

/// What a transaction has come to.
struct Result {
  Deed deed;
  NodeMask contributors = 0;
  NodeMask with_rows = 0;
  Place place = {};  ///< Of a share: from those that have the state.

  friend bool operator==(const Result&, const Result&) = default;
};

/// What members of each generation see of each other, in place of the connections between them.
/// What one does is seen by the others when they next look, each in its own time.
///
/// Owner and lifetime: of a simulation. Threads: one. Errors: `broken` is told what members do that
/// they must not.
class Mesh {
 public:
  struct Transaction {
    NodeMask posted = 0;    ///< These have given their part.
    NodeMask computed = 0;  ///< And these have the result.
    NodeMask wants = 0;     ///< They know that the coordinator wants them to meet,
    NodeMask prevents = 0;  ///< and these can't.
    NodeMask has_state = 0;
    Result result;
  };
  struct Generation {
    NodeMask members = 0;
    NodeMask joined = 0;
    NodeMask gone = 0;  ///< Their connections are closed.
    NodeMask left = 0;  ///< They begin nothing more.
    std::map<std::int64_t, Transaction> transactions;
  };

  using Changed = std::function<void(int generation)>;
  using Broken = std::function<void(std::string)>;
  Mesh(Changed changed, Broken broken) : changed_(std::move(changed)), broken_(std::move(broken)) {}

  Generation& At(int generation) { return generations_[generation]; }

  void Join(int generation, int node_id, NodeMask members);
  void Close(int generation, int node_id);
  void Leave(int generation, int node_id);
  /// A member gives its part. Null place: it has no state.
  void Post(int generation, int node_id, std::int64_t transaction, const Deed& deed, bool has_rows,
            const Place* place);
  /// Likewise one that has left, to what others have begun.
  void PostNothing(int generation, int node_id, std::int64_t transaction);
  void Compute(int generation, int node_id, std::int64_t transaction, bool wants, bool prevents);

  /// Nobody can connect with the node from now on.
  void Part(int node_id) { unreachable_ |= MaskOf(node_id); }
  bool IsConnected(int generation, int node_id) const;

 private:
  std::map<int, Generation> generations_;
  NodeMask unreachable_ = 0;
  const Changed changed_;
  const Broken broken_;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_MESH_H_
