#ifndef TFOS_NET_HANDSHAKE_CROWD_H_
#define TFOS_NET_HANDSHAKE_CROWD_H_

#include <sys/socket.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace tfos::net {

/// Where a connection comes from. A host of IPv6 can mostly have many addresses.
/// A value. Threads: plain data.
struct Origin {
  std::uint64_t network = 0;  ///< IPv6: the first 64 bits. IPv4: the address.
  std::uint64_t host = 0;     ///< IPv6: the other 64 bits.

  /// A peer's address. An address of IPv4 is the same one in IPv6. What has none of the two, as a
  /// Unix socket, is of one origin.
  static Origin Of(const sockaddr_storage& address);

  friend auto operator<=>(const Origin&, const Origin&) = default;
};

/// Strangers that wait, by where they come from. It says which one to drop when there are too many.
/// Their numbers rise in the order in which they come.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Cost: about 200 bytes for
/// each stranger. Each call takes O(log n).
class Crowd {
 public:
  void Add(const Origin& origin, std::uint64_t number);
  /// One that was added, from the same origin.
  void Remove(const Origin& origin, std::uint64_t number);
  /// The oldest stranger of the busiest host in the busiest network. Of hosts, or networks, that
  /// are equally busy, the one with the oldest stranger counts. There must be a stranger.
  std::uint64_t FirstToGo() const { return networks_.first_to_go(); }
  /// How many come from the busiest network.
  std::size_t of_busiest() const { return networks_.most(); }

 private:
  /// Groups, of which the largest comes first.
  template <typename Group>
  class Groups {
   public:
    std::size_t size() const { return size_; }
    std::uint64_t first_to_go() const { return order_.begin()->first_to_go; }
    /// Strangers in the largest group.
    std::size_t most() const { return order_.empty() ? 0 : order_.begin()->size; }

    /// Calls `change` with the group, which is made before, and forgotten when it is empty.
    template <typename Change>
    void Update(std::uint64_t key, const Change& change) {
      const auto entry = groups_.try_emplace(key).first;
      Group& group = entry->second;
      if (group.size() > 0) order_.erase({group.size(), group.first_to_go()});
      size_ -= group.size();
      change(group);
      size_ += group.size();
      if (group.size() > 0) {
        order_.insert({group.size(), group.first_to_go()});
      } else {
        groups_.erase(entry);
      }
    }

   private:
    struct Rank {
      std::size_t size;
      std::uint64_t first_to_go;
      bool operator<(const Rank& other) const {
        return size != other.size ? size > other.size : first_to_go < other.first_to_go;
      }
    };

    std::map<std::uint64_t, Group> groups_;
    std::set<Rank> order_;
    std::size_t size_ = 0;  ///< Of all groups.
  };

  struct Host {
    std::set<std::uint64_t> numbers;
    std::size_t size() const { return numbers.size(); }
    std::uint64_t first_to_go() const { return *numbers.begin(); }
  };

  Groups<Groups<Host>> networks_;
};

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_CROWD_H_
