#ifndef TFOS_COLLECTIVE_TEAM_H_
#define TFOS_COLLECTIVE_TEAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "collective/mesh/mesh.h"

namespace tfos::collective {

/// Some members of a mesh, this one among them, with numbers of their own: what algorithms are
/// written for.
///
/// Owner and lifetime: borrows the mesh. Threads and errors: as Mesh.
class Team {
 public:
  /// `members` are of the mesh, in an order that is the same on all of them; `rank` is this one's
  /// place there.
  Team(Mesh& mesh, std::vector<std::uint32_t> members, std::uint32_t rank)
      : mesh_(mesh), members_(std::move(members)), rank_(rank) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }

  /// As Mesh::Move, with the team's numbers.
  Status Move(Mesh::Step step) {
    if (step.to) step.to = members_[*step.to];
    if (step.from) step.from = members_[*step.from];
    return mesh_.Move(step);
  }

 private:
  Mesh& mesh_;
  const std::vector<std::uint32_t> members_;
  const std::uint32_t rank_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_TEAM_H_
