#include "node/generations.h"

#include <algorithm>

#include "base/format.h"

namespace tfos::node {

void Generations::On(const control::Regroup& regroup) {
  const MutexLock lock(mutex_);
  opened_ = std::max(opened_, regroup.generation);
  reason_ = regroup.reason;
  changed_.NotifyAll();
}

void Generations::On(const control::FormedGroup& group) {
  const MutexLock lock(mutex_);
  formed_ = group;
  if (group.admits) meet_ = false;
  changed_.NotifyAll();
}

void Generations::On(const control::NoGroup& none) {
  const MutexLock lock(mutex_);
  none_ = none.reason;
  changed_.NotifyAll();
}

void Generations::OnMeet() {
  const MutexLock lock(mutex_);
  meet_ = true;
}

bool Generations::WantsToMeet() const {
  const MutexLock lock(mutex_);
  return meet_;
}

Status Generations::Check(int generation) const {
  const MutexLock lock(mutex_);
  if (opened_ <= generation) return {};
  return {ErrorKind::kReconnect, reason_};
}

Result<control::FormedGroup> Generations::AwaitNext(control::GroupReady ready,
                                                    const InterruptCheck& check) {
  bool told = false;
  while (true) {
    if (!told) TFOS_RETURN_IF_ERROR(send_(ready));
    told = true;
    const MutexLock lock(mutex_);
    // What was formed comes before what was opened later: it says what others have returned from.
    if (formed_.generation >= ready.generation) return formed_;
    if (none_) return Status(ErrorKind::kReconnect, *none_);
    if (opened_ > ready.generation) {
      ready.generation = opened_;
      told = false;
      continue;
    }
    TFOS_RETURN_IF_ERROR(changed_.WaitRound(mutex_, {.check = check}, "no group"));
  }
}

}  // namespace tfos::node
