#include "collective/mesh/mesh.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A member that is gone may have done all of an operation that others are about to finish.
constexpr seconds kPatienceWithOthers{1};
/// A member that left the group waits so long for what it said last to be on its way.
constexpr seconds kFlushPatience{5};
/// How long UCX is looked at before it is slept for: what comes within that takes no waking up.
constexpr std::chrono::microseconds kLookAtUcx{20};

}  // namespace

void Mesh::Begin(const Operation& operation) {
  operation_ = operation;
  waited_ = 0;
  begun_.assign(size(), false);
}

Link& Mesh::LinkTo(std::uint32_t member) {
  Link& link = *links_[member];
  if (!begun_[member]) link.Begin(operation_);
  begun_[member] = true;
  return link;
}

Status Mesh::Move(const Step& step) {
  TFOS_RETURN_IF_ERROR(failure_);
  Link* const to = step.to ? &LinkTo(*step.to) : nullptr;
  Link* const from = step.from ? &LinkTo(*step.from) : nullptr;
  if (to != nullptr) to->Send(step.data);
  if (from != nullptr) from->Receive(step.room, step.add);
  Status moved = MoveAll(to, from);
  return moved.ok() ? moved : Fail(std::move(moved));
}

Status Mesh::MoveAll(Link* to, Link* from) {
  const auto moved = [to, from] {
    return (to != nullptr ? to->moved() : 0) + (from != nullptr ? from->moved() : 0);
  };
  std::uint64_t moved_before = moved();
  Clock::TimePoint since = Clock::Steady().Now();
  while (true) {
    if (to != nullptr && to->sending()) TFOS_RETURN_IF_ERROR(to->Push());
    if (from != nullptr && from->receiving()) TFOS_RETURN_IF_ERROR(from->Pull());
    const bool sends = to != nullptr && to->sending();
    const bool receives = from != nullptr && from->receiving();
    if (!sends && !receives) return {};
    if (receives && from->left()) {
      from->Announce();
      // A few bytes to somebody who waits for nothing else.
      if (from != to) TFOS_RETURN_IF_ERROR(from->Push());
    }
    const Clock::TimePoint begin = Clock::Steady().Now();
    if (std::exchange(moved_before, moved()) != moved_before) since = begin;
    const bool begins = receives && !from->agreed();
    TFOS_RETURN_IF_ERROR(Await(sends ? to : nullptr, receives ? from : nullptr, begin - since));
    if (begins) waited_ += (Clock::Steady().Now() - begin).count();
    TFOS_RETURN_IF_ERROR(CheckWait(sends ? to : nullptr, receives ? from : nullptr, since));
  }
}

bool Mesh::ProgressUcx() {
  const Clock::TimePoint begin = Clock::Steady().Now();
  do {
    if (ucx_->Progress()) return true;
  } while (Clock::Steady().Now() - begin < kLookAtUcx);
  return !ucx_->Arm();
}

Status Mesh::Await(Link* to, Link* from, Clock::Duration waited) {
  // The sockets, and UCX for both.
  pollfd entries[3];
  Link* links[3] = {};
  nfds_t count = 0;
  bool beside = false;
  const auto add = [&](Link* link, short events) {
    if (link == nullptr) return;
    if (link->beside_socket()) {
      beside = true;
      events = POLLIN | POLLRDHUP;  // Its end, and its last words.
    }
    for (nfds_t i = 0; i < count; ++i) {
      if (links[i] == link) {
        entries[i].events = static_cast<short>(entries[i].events | events);
        return;
      }
    }
    links[count] = link;
    entries[count++] = {.fd = link->fd(), .events = events, .revents = 0};
  };
  add(to, POLLOUT);
  add(from, POLLIN);
  milliseconds longest = kCheckInterval;
  if (beside) {
    if (ProgressUcx()) return {};
    entries[count++] = {.fd = ucx_->fd(), .events = POLLIN, .revents = 0};
    // UCX 1.22 sometimes misses an event over TCP and does not wake up. Nothing has moved for
    // `waited`, so looking again after as long costs little, and rarely happens in a long wait.
    longest = std::clamp(std::chrono::ceil<milliseconds>(waited), milliseconds(1), kCheckInterval);
  }
  const int ready = ::poll(entries, count, static_cast<int>(longest.count()));
  if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for other members");
  for (nfds_t i = 0; ready > 0 && i < count; ++i) {
    if (entries[i].revents == 0 || links[i] == nullptr || !links[i]->beside_socket()) continue;
    // What came before its end comes first.
    return ucx_->Progress() ? Status() : links[i]->OnHangUp();
  }
  return {};
}

Status Mesh::CheckWait(Link* to, Link* from, Clock::TimePoint& since) {
  const Clock::Duration waited = Clock::Steady().Now() - since;
  if (waited < kCheckInterval) return {};
  if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
  TFOS_RETURN_IF_ERROR(CheckPeers(waited));
  if (waited < options_.stall_after) return {};
  OnStall(from != nullptr ? from : to, waited);
  since = Clock::Steady().Now();
  return {};
}

Status Mesh::CheckPeers(Clock::Duration waited) {
  if (told_left_ || waited < kPatienceWithOthers) return {};
  std::vector<pollfd> entries;
  for (const auto& link : links_) {
    // Poll passes over negative ones.
    entries.push_back({.fd = link == nullptr ? -1 : link->fd(), .events = POLLRDHUP, .revents = 0});
  }
  const bool any = ::poll(entries.data(), entries.size(), 0) > 0;
  for (std::size_t member = 0; member < entries.size(); ++member) {
    if (any && entries[member].revents != 0) return links_[member]->OnHangUp();
    if (entries[member].fd < 0) continue;
    const Status heard = net::CheckAcknowledged(acks_[member], entries[member].fd);
    if (!heard.ok()) return heard.Annotate(options_.members[member].name + " is lost");
  }
  return {};
}

Status Mesh::CheckAlive(std::uint32_t member, Clock::Duration waited) {
  TFOS_RETURN_IF_ERROR(failure_);
  if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
  pollfd entry{.fd = links_[member]->fd(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 ? links_[member]->OnHangUp() : CheckPeers(waited);
}

Status Mesh::Announce(std::uint32_t member) {
  TFOS_RETURN_IF_ERROR(failure_);
  Link& link = LinkTo(member);
  link.Announce();
  // A few bytes to somebody who waits for nothing else.
  return link.Push();
}

void Mesh::OnStall(const Link* waited_for, Clock::Duration waited) {
  const auto it = std::ranges::find(links_, waited_for, &std::unique_ptr<Link>::get);
  auto culprit = static_cast<std::uint32_t>(it - links_.begin());
  // A member that waits for another one is not to blame.
  if (const auto other = waited_for->waits_for(); other && *other < size()) culprit = *other;
  TellOfStall(culprit, waited);
  if (on_stall_) on_stall_(culprit);
}

void Mesh::TellOfStall(std::uint32_t culprit, Clock::Duration waited) {
  LogWarning("{} has waited {:.0f} s in {} for {}, which is not that far",
             options_.members[options_.rank].name, std::chrono::duration<double>(waited).count(),
             operation_.Describe(), options_.members[culprit].name);
  for (std::uint32_t member = 0; member < size(); ++member) {
    if (links_[member] == nullptr || member == culprit) continue;
    Link& link = LinkTo(member);
    link.TellWaiting(culprit);
    static_cast<void>(link.Push().ok());  // If it can't be told, it knows more.
  }
}

Status Mesh::TellLeft(std::uint64_t begun) {
  TFOS_RETURN_IF_ERROR(failure_);
  told_left_ = true;
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    link->TellLeft(begun);
    if (Status sent = MoveAll(link.get(), nullptr); !sent.ok()) return Fail(std::move(sent));
  }
  return {};
}

Result<std::optional<Operation>> Mesh::LookFor(std::uint64_t number, const Finder& find) {
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    TFOS_ASSIGN_OR_RETURN(auto next, link->Peek(number));
    if (next && next->number == number) return next;
    // Somebody may be further already, and waits for others. One that is gone says no more.
    pollfd entry{.fd = link->fd(), .events = POLLRDHUP, .revents = 0};
    if (next && ::poll(&entry, 1, 0) > 0) TFOS_RETURN_IF_ERROR(link->OnHangUp());
  }
  // After those who say that they have left: they have begun all they ever will.
  return find();
}

Result<std::optional<Operation>> Mesh::AwaitOther(std::uint64_t number, const Finder& find) {
  TFOS_RETURN_IF_ERROR(failure_);
  while (true) {
    auto next = LookFor(number, find);
    if (!next.ok()) return Fail(next.status());
    if (*next) return next;
    std::vector<pollfd> entries;
    bool all_left = true;
    std::uint64_t begun = 0;
    for (const auto& link : links_) {
      if (link == nullptr) continue;
      all_left = all_left && link->left();
      begun = std::max(begun, link->begun());
      if (!link->ended()) entries.push_back({.fd = link->fd(), .events = POLLIN, .revents = 0});
    }
    // The last operation may still be on its way to here, by members that have left, too.
    if (all_left && (number >= begun || entries.empty())) return next;
    if (ucx_ != nullptr) {
      if (ProgressUcx()) continue;
      entries.push_back({.fd = ucx_->fd(), .events = POLLIN, .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(kCheckInterval.count())) < 0 &&
        errno != EINTR) {
      return Fail(Status::FromErrno(errno, "wait for other members"));
    }
    if (options_.check) {
      if (Status checked = options_.check(); !checked.ok()) return Fail(std::move(checked));
    }
  }
}

void Mesh::Disconnect() {
  if (failure_.ok()) failure_ = {ErrorKind::kReconnect, "this member has left its group"};
  if (ucx_ != nullptr) ucx_->Flush(kFlushPatience);
  for (auto& link : links_) link.reset();
}

Status Mesh::Fail(Status why) {
  if (!failure_.ok()) return failure_;
  failure_ = why;
  const std::string text = why.ToString();
  for (const auto& link : links_) {
    if (link != nullptr) link->Abort(text);
  }
  // Once all have been told.
  for (const auto& link : links_) {
    if (link != nullptr) link->Close();
  }
  return why;
}

}  // namespace tfos::collective
