#ifndef TFOS_FEED_NODE_SESSION_MEMORY_GRANTS_H_
#define TFOS_FEED_NODE_SESSION_MEMORY_GRANTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace tfos::feed {

/// Which session gets how much of a node's memory for feeders, and when. It counts only; the
/// receiver of a grant gets the memory.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: bytes.
class MemoryGrants {
 public:
  struct Request {
    std::uint64_t session = 0;
    std::uint64_t bytes = 0;
    /// The session is open, and wants more than it had.
    bool growing = false;
  };

  explicit MemoryGrants(std::uint64_t budget) : budget_(budget) {}

  void Ask(const Request& request) { waiting_.push_back(request); }
  /// The session waits no longer, if it did.
  void Forget(std::uint64_t session);
  /// Those that are not open yet wait no longer. Returns their sessions.
  std::vector<std::uint64_t> ForgetOpening();

  /// The request whose turn it is, if there is memory for it now. Its bytes count from then on.
  ///
  /// Requests are granted in order of arrival. `comes_first` says of a session that consumers wait
  /// for its end: if such a one grows, it does so at once, whatever the budget says, as others
  /// give their memory back only after it. A request larger than the budget is granted alone.
  std::optional<Request> Grant(const std::function<bool(std::uint64_t session)>& comes_first);

  /// What counted as `before` bytes now counts as `after`: 0 when it was given back.
  void Recount(std::uint64_t before, std::uint64_t after) { in_use_ += after - before; }

  /// How many requests wait.
  std::size_t waiting() const { return waiting_.size(); }
  std::uint64_t in_use() const { return in_use_; }
  /// What is left of the budget.
  std::uint64_t spare() const { return in_use_ < budget_ ? budget_ - in_use_ : 0; }

 private:
  const std::uint64_t budget_;
  std::uint64_t in_use_ = 0;
  std::deque<Request> waiting_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_MEMORY_GRANTS_H_
