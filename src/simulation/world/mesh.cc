#include "simulation/world/mesh.h"

#include <bit>

namespace tfos::simulation {

void Mesh::Join(int generation, int node_id, NodeMask members) {
  Generation& at = generations_[generation];
  if (at.members != 0 && at.members != members) {
    broken_(fmt::format("generation {} has other members for node {}", generation, node_id));
  }
  at.members = members;
  at.joined |= MaskOf(node_id);
  changed_(generation);
}

void Mesh::Close(int generation, int node_id) {
  generations_[generation].gone |= MaskOf(node_id);
  changed_(generation);
}

void Mesh::Leave(int generation, int node_id) {
  generations_[generation].left |= MaskOf(node_id);
  changed_(generation);
}

void Mesh::Post(int generation, int node_id, std::int64_t transaction, const Deed& deed,
                bool has_rows, const Place* place) {
  Generation& at = generations_[generation];
  Transaction& it = at.transactions[transaction];
  if ((it.posted & ~at.left) != 0 && it.result.deed != deed) {
    broken_(
        fmt::format("members of generation {} do different things in transaction {}: node {} "
                    "does {}, and others do {}",
                    generation, transaction, node_id, deed.Text(), it.result.deed.Text()));
  }
  it.result.deed = deed;
  it.posted |= MaskOf(node_id);
  it.result.contributors |= MaskOf(node_id);
  if (has_rows) it.result.with_rows |= MaskOf(node_id);
  if (place != nullptr) {
    if (it.has_state != 0 && it.result.place != *place) {
      broken_(fmt::format("node {} gives newcomers another state than others do", node_id));
    }
    it.has_state |= MaskOf(node_id);
    it.result.place = *place;
  }
  changed_(generation);
}

void Mesh::PostNothing(int generation, int node_id, std::int64_t transaction) {
  generations_[generation].transactions[transaction].posted |= MaskOf(node_id);
  changed_(generation);
}

void Mesh::Compute(int generation, int node_id, std::int64_t transaction, bool wants,
                   bool prevents) {
  Transaction& it = generations_[generation].transactions[transaction];
  it.computed |= MaskOf(node_id);
  if (wants) it.wants |= MaskOf(node_id);
  if (prevents) it.prevents |= MaskOf(node_id);
  changed_(generation);
}

bool Mesh::IsConnected(int generation, int node_id) const {
  const Generation& at = generations_.at(generation);
  // Where the first members can't connect, their programs fail: nothing of this is about that.
  if (generation > 0 && (at.members & unreachable_) != 0 && std::popcount(at.members) > 1)
    return false;
  return (at.joined & MaskOf(node_id)) != 0 && at.joined == at.members;
}

}  // namespace tfos::simulation
