#ifndef TFOS_TESTING_TAMPERING_H_
#define TFOS_TESTING_TAMPERING_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "testing/middle_man.h"

// What an active attacker can do to a connection over TLS, for tests of every plane: each has its
// own conversation and the same attacks.

namespace tfos::testing {

/// What one end says at once: hello or challenge (docs/formats/handshake.md), then TLS's records.
struct OverheardMessage {
  MiddleMan::Direction direction;
  std::size_t number;  ///< In its direction.
  std::string bytes;

  /// It is protected by a key.
  bool encrypted() const { return number > 0 && bytes[0] == 23; }
};

/// What is passed on in place of a message.
struct PassedOn {
  std::string bytes;
  bool more = true;  ///< False: nothing more goes in the message's direction.
};

/// For a MiddleMan: each whole message goes through `change`.
MiddleMan::Rule OnMessages(std::function<PassedOn(OverheardMessage message)> change);

/// What is said over one connection through a MiddleMan that only listens.
std::vector<OverheardMessage> Overhear(std::uint16_t server_port,
                                       const std::function<void(std::uint16_t port)>& converse);

/// One attack.
struct Tampering {
  std::string what;  ///< For messages: "the 3rd message to the server comes twice".
  MiddleMan::Rule rule;
};

/// All attacks on a conversation that goes like `overheard`, none of which may be taken for it.
/// They are flipped bits, `flips` for each message; cuts; and records that are left out, repeated,
/// exchanged, sent back, or taken from an earlier connection. In the handshake's own messages, bits
/// are flipped by shake_hands_test.cc.
std::vector<Tampering> Tamperings(const std::vector<OverheardMessage>& overheard,
                                  std::size_t flips);
/// Says to either end, or to both, that the other one is content with plain TCP.
std::vector<Tampering> Downgrades(const std::vector<OverheardMessage>& overheard);

/// Changes a bit of the last thing that is said in this direction.
MiddleMan::Rule ChangeTheLast(const std::vector<OverheardMessage>& overheard,
                              MiddleMan::Direction direction);

/// All that the client says.
std::string SaidToServer(const std::vector<OverheardMessage>& overheard);

}  // namespace tfos::testing

#endif  // TFOS_TESTING_TAMPERING_H_
