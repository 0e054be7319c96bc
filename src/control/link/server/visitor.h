#ifndef TFOS_CONTROL_LINK_SERVER_VISITOR_H_
#define TFOS_CONTROL_LINK_SERVER_VISITOR_H_

#include <memory>
#include <string>

#include "net/stream.h"

namespace tfos::control::session {

/// What a peer has proved so far.
enum class CameAs {
  kStranger,  ///< Nothing: it speaks HTTP at once.
  kAgent,
  kAsker,
  kOperator,
};

/// A connection that was let in.
struct Visitor {
  std::unique_ptr<net::Stream> stream;
  std::string peer;
  std::string received = {};  ///< What a stranger has said already.
  CameAs came_as = CameAs::kStranger;
  int node_id = 0;  ///< An agent's.
};

}  // namespace tfos::control::session

#endif  // TFOS_CONTROL_LINK_SERVER_VISITOR_H_
