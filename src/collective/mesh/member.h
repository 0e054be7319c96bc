#ifndef TFOS_COLLECTIVE_MESH_MEMBER_H_
#define TFOS_COLLECTIVE_MESH_MEMBER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "net/handshake/protocol.h"

namespace tfos::collective {

/// A node that takes part.
struct Member {
  std::string name;     ///< For messages, such as `worker:1 on host b`.
  std::string address;  ///< Others connect to it there.
  std::uint16_t port = 0;
};

/// Whether members of different hosts exchange tensors over UCX.
enum class Rdma {
  kOff,
  kPreferred,  ///< Where both have it; else over TCP, and the log says so.
  kRequired,   ///< Without it nobody joins.
};

class Membership;

struct GroupOptions {
  std::vector<Member> members;  ///< In the same order everywhere.
  /// The members that an elastic group begins with, of those by their places, ascending; empty:
  /// all.
  std::vector<std::uint32_t> ranks = {};
  /// The others are together already: this one takes part once they let it in (Group::ComeIn).
  bool joins = false;
  std::uint32_t rank = 0;        ///< This one's place among them.
  Secret key;                    ///< For tensors (base/crypto/purpose.h).
  std::uint32_t generation = 0;  ///< Of the group; the same on all members.
  UniqueFd listener;             ///< A TCP socket that is bound to this member's port.
  /// Others may connect to the port again, for another generation.
  bool keep_listening = false;
  /// Members on one host exchange tensors through memory that they share: 2 MiB of it for each.
  bool shared_memory = true;
  /// Members share memory when they are on one machine and have the same name for it here.
  std::string host = {};
  /// Which connections go over TLS. `kAlways` is not possible together with `rdma`: with the
  /// others, what goes over UCX is not encrypted.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  Rdma rdma = Rdma::kOff;
  /// What UCX may use, as its UCX_TLS has it; empty: what it chooses.
  std::string ucx_transports = {};
  /// The file of a libucp to take where the system has none that is new enough; may be empty.
  std::string packaged_ucx = {};
  /// A file to write a timeline of this member's operations to, as Timeline has it; empty: none.
  std::string timeline = {};
  /// How long all members may take to connect.
  std::chrono::milliseconds connect_timeout{std::chrono::minutes(10)};
  /// The same in later generations of an elastic group, whose members are all ready for it.
  std::chrono::milliseconds regroup_timeout{std::chrono::minutes(1)};
  /// After so long without progress this member says in the log whom it waits for: in an operation,
  /// and when the group is made.
  std::chrono::milliseconds stall_after{std::chrono::seconds(30)};
  /// Makes the group elastic: it goes on without members that are lost. Null: it ends with the
  /// first.
  std::shared_ptr<Membership> membership = {};
  /// Ends any wait. Called on the thread that waits.
  InterruptCheck check = {};
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_MEMBER_H_
