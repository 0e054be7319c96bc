#ifndef TFOS_PARAMETER_SERVER_MODEL_LINK_PUSHES_H_
#define TFOS_PARAMETER_SERVER_MODEL_LINK_PUSHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace tfos::parameter_server {

/// How far a server is with what one client's link pushes, over however many connections.
struct LinkPushes {
  std::uint64_t committed = 0;  ///< Pushes that are complete.
  std::uint64_t step = 0;       ///< Of the push under way (Store::BeginPush); 0 for none.
  std::uint64_t combined = 0;   ///< Bytes of the push under way, from the beginning of the share.
  std::uint64_t clock = 0;      ///< The link's, as Clocks had it last.
};

/// What a server knows of links whose connections are gone: a link that connects again goes on from
/// there, and nothing is combined twice.
///
/// Owner and lifetime: a value of the Server. Bounded: the links that left last. Threads: one at a
/// time.
class GoneLinks {
 public:
  /// Many times the workers of a cluster, and still small.
  static constexpr std::size_t kMost = 4096;

  /// Its connection is gone.
  void Put(std::uint64_t link, const LinkPushes& pushes);
  /// It has another one. Of a link that is not known: nothing was pushed.
  LinkPushes Take(std::uint64_t link);
  std::size_t size() const { return links_.size(); }

 private:
  std::deque<std::pair<std::uint64_t, LinkPushes>> links_;  ///< The one that left last is last.
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_MODEL_LINK_PUSHES_H_
