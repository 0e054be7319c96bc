#ifndef TFOS_CONTROL_LINK_SEND_QUEUE_H_
#define TFOS_CONTROL_LINK_SEND_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tfos::control {

/// What waits for a slow peer, up to a number of bytes. Events wait in their order. State does not
/// pile up: of each kind at most one message waits, and it is made when it is its turn, so that the
/// peer gets the latest.
///
/// Owner and lifetime: a value; what the functions of `PushLatest` borrow must outlive it.
/// Threads: one at a time. Units: bytes.
template <typename Message>
class SendQueue {
 public:
  /// nullopt: there is nothing to tell after all.
  using Make = std::function<std::optional<Message>()>;

  explicit SendQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  bool empty() const { return entries_.empty(); }

  /// False when the queue is full: the message was not taken.
  bool Push(Message message, std::size_t bytes) {
    if (!Count(0, bytes)) return false;
    entries_.push_back({.kind = {}, .message = std::move(message), .make = {}, .bytes = bytes});
    return true;
  }

  /// `bytes`: what `make` keeps until it is called. False as for `Push`: a peer that says which
  /// kinds there are may name ever more of them.
  bool PushLatest(std::string_view kind, Make make, std::size_t bytes = 0) {
    const std::size_t all = kind.size() + bytes;
    const auto waiting = std::ranges::find(entries_, kind, &Entry::kind);
    if (!Count(waiting == entries_.end() ? 0 : waiting->bytes, all)) return false;
    if (waiting != entries_.end()) {
      waiting->make = std::move(make);
      waiting->bytes = all;
    } else {
      entries_.push_back(
          {.kind = std::string(kind), .message = {}, .make = std::move(make), .bytes = all});
    }
    return true;
  }

  /// The next message; nullopt when none is left.
  std::optional<Message> Pop() {
    while (!entries_.empty()) {
      Entry next = std::move(entries_.front());
      entries_.pop_front();
      bytes_ -= next.bytes;
      std::optional<Message> message =
          next.make ? next.make() : std::optional<Message>(std::move(next.message));
      if (message.has_value()) return message;
    }
    return std::nullopt;
  }

  void Clear() {
    entries_.clear();
    bytes_ = 0;
  }

 private:
  struct Entry {
    std::string kind;  // empty: an event
    Message message;
    Make make;
    std::size_t bytes = 0;
  };

  /// Counts `now` bytes in place of `before`; false, and nothing changes, if they do not fit.
  bool Count(std::size_t before, std::size_t now) {
    const std::size_t others = bytes_ - before;
    if (now > max_bytes_ - others) return false;
    bytes_ = others + now;
    return true;
  }

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SEND_QUEUE_H_
