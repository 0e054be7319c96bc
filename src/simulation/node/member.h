#ifndef TFOS_SIMULATION_NODE_MEMBER_H_
#define TFOS_SIMULATION_NODE_MEMBER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "control/messages/parts/generation_messages.h"
#include "node/generations.h"
#include "simulation/world/mesh.h"
#include "simulation/world/random.h"
#include "simulation/world/scheduler.h"

namespace tfos::simulation {

/// A node's end of its group. node::Generations is the real one. What is around it follows
/// docs/formats/generations.md as collective::Group does, which can't be used here: it waits in its
/// caller's thread, and for sockets.
///
/// Owner and lifetime: of a node. Threads: one. Errors: `broken` is told what breaks the page.
/// Calls that return kWaits are called again, with the same arguments, when something has changed.
class Member {
 public:
  enum class Progress {
    kWaits,  ///< For others.
    kMoved,  ///< It goes on with the same call.
    kDone,
    kEnded,  ///< The group has ended: `end` says why.
  };
  struct Options {
    int node_id = 0;
    bool joins = false;
    NodeMask members = 0;   ///< Of generation 0.
    int first_trainer = 0;  ///< The node with rank 0.
    std::function<void(const control::GroupReady&)> send;
    std::function<void()> wake_later;  ///< When the time to connect is over.
    std::function<void(std::string)> broken;
  };

  Member(Options options, Mesh& mesh, Scheduler& scheduler, Random& random);

  void On(const control::Regroup& regroup);
  void On(const control::FormedGroup& group);
  void On(const control::NoGroup& none);
  void OnMeet() { generations_.OnMeet(); }

  void SetInSteps(bool in_steps) { in_steps_ = in_steps; }
  /// Connects with the members of generation 0, unless it joins.
  Progress Begin();
  /// `place`: what it gives newcomers, if it has the state.
  Progress Transact(const Deed& deed, bool has_rows, const Place& place);
  Progress Settle();
  Progress MeetAfterStep();
  /// While it waits for rows: follows the others to a generation that they gather.
  Progress Follow();
  Progress ComeIn();
  Progress Leave();
  /// Its process has ended. What is left of it can't be reached any more.
  void Die();

  /// The result of the transaction that was done last.
  const Result& result() const { return result_; }
  std::int64_t committed() const { return committed_; }
  bool admitted() const { return admitted_; }
  bool has_state() const { return has_state_; }
  int generation() const { return number_; }
  const std::string& end() const { return end_; }
  /// Whom it waits for, for people.
  std::string Describe() const;

 private:
  enum class State { kConnecting, kBetween, kPosted, kComputed, kWaiting, kEnded };

  Progress Connect();
  Progress AwaitGroup();
  void Join(const control::FormedGroup& group);
  void GiveUp(std::string why);
  Progress End(std::string why);
  control::GroupReady Ready(bool leaves) const;
  /// Nothing of the generation can end any more.
  std::optional<std::string> WhyBroken();
  Progress TakePart();
  NodeMask self() const { return MaskOf(options_.node_id); }

  const Options options_;
  Mesh& mesh_;
  Scheduler& scheduler_;
  Random& random_;
  node::Generations generations_;
  State state_ = State::kConnecting;
  int number_ = 0;
  NodeMask members_ = 0;
  std::int64_t committed_ = 0;
  std::optional<Result> computed_;
  Result result_;
  bool outside_;
  bool has_state_;
  bool settling_ = false;
  bool in_steps_ = false;
  bool meet_ = false;
  bool after_step_ = false;
  bool admitted_ = false;
  bool asking_ = false;    ///< It has begun to meet, or to come in.
  bool by_group_ = false;  ///< The transaction was committed by a `group`.
  bool left_ = false;
  std::int64_t takes_part_in_ = 0;  ///< Once it has left: the next transaction.
  std::string why_;                 ///< It has given up its generation.
  std::string end_;
  Scheduler::TimePoint connect_until_{};
  // What has come: node::Generations is only asked when it has an answer, as it waits otherwise.
  int wanted_ = 0;  ///< The generation that it has said to be ready for; 0: none yet.
  int formed_ = 0;
  int opened_ = 0;
  bool none_ = false;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_NODE_MEMBER_H_
