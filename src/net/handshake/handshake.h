#ifndef TFOS_NET_HANDSHAKE_HANDSHAKE_H_
#define TFOS_NET_HANDSHAKE_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "net/handshake/messages.h"
#include "net/handshake/protocol.h"
#include "net/tls/tls_stream.h"
#include "tfos/status.h"

namespace tfos::net {

/// One more protocol of a port, and what opens it.
struct Door {
  Protocol protocol;
  Secret key;
};

/// What one end of a connection brings along.
struct Party {
  Protocol protocol;
  Secret key;  ///< Of the protocol's purpose, never the cluster's token.
  Encryption encryption = Encryption::kBetweenHosts;
  /// Bytes of a TLS connection that are encrypted and sent together; costs twice as much memory.
  std::size_t tls_batch_bytes = TlsStream::kBatchBytes;
  /// For the accepting end: what it takes besides. Their magics begin with the same letter.
  std::vector<Door> doors = {};
};

/// The accepting end agrees to the numbers, which are true, or says why not: superseded for an
/// earlier generation than its own, retry later for a later one, bad input for anything else. The
/// connecting end fails with the same kind.
using AcceptsNumbers = std::function<Status(const Numbers&)>;

/// One connection on its way: both ends prove that they know the key, agree on who they are and how
/// what follows is protected. Every port of tfos begins like this (docs/formats/handshake.md).
///
/// Never waits: call Continue, poll the socket for what it says, and call it again.
///
/// Owner and lifetime: its user's; owns the socket until Take. Threads: one at a time.
/// Errors: bad input when the other end is not a member, has another version, or asks for a channel
/// that is too weak. Superseded and retry later where the ends are of different generations,
/// reconnect when it closes. Nothing is to be done with the socket then.
class Handshake {
 public:
  enum class State {
    kReading,  ///< Poll for input.
    kWriting,  ///< Poll for output.
    kDone,
    kOther,  ///< What came does not begin like any handshake. The socket is at `received`'s end.
  };

  static Handshake Connecting(UniqueFd socket, const Party& party, const Numbers& numbers);
  /// With `others`, a peer that speaks another protocol, such as HTTP, is not an error: see kOther.
  static Handshake Accepting(UniqueFd socket, const Party& party, AcceptsNumbers accepts,
                             bool others = false);

  Handshake(Handshake&&) = default;
  Handshake& operator=(Handshake&&) = default;
  ~Handshake() = default;

  /// Does what can be done without waiting.
  Result<State> Continue();
  int fd() const { return stream_ != nullptr ? stream_->fd() : socket_.get(); }
  /// Once done: what it has become.
  Connection Take();
  /// Once it is `kOther`: the socket, and what has been received from it.
  UniqueFd TakeSocket() { return std::move(socket_); }
  std::span<const std::byte> received() const { return std::span(room_).first(filled_); }

 private:
  enum class Step {
    kBegin,
    kAwaitHello,
    kAwaitChallenge,
    kAwaitProof,
    kBeginTls,
    kTls,
    kAwaitWelcome,
    kDone,
    kOther
  };

  Handshake(UniqueFd socket, const Party& party, bool connecting);

  Status Begin();
  Status OnHello();
  /// Goes on by the protocol that the connecting end has asked for, if it is one of this port.
  void ChooseDoor(std::string_view magic);
  Status OnChallenge();
  Status OnProof();
  Status BeginTls();
  Status AfterTls();
  Status Agree();
  Status Refuse(std::span<const std::byte> words, const Status& why);
  void Expect(Step step, std::size_t bytes);
  void Say(std::string_view bytes) { out_ += bytes; }
  /// Whether all of `out_` has been sent.
  Result<bool> Flush();
  /// Whether all that is awaited has come.
  Result<bool> Fill();
  Status CheckVersion(std::string_view magic, std::uint16_t version) const;

  UniqueFd socket_;
  Party party_;
  bool connecting_;
  bool others_ = false;
  AcceptsNumbers accepts_;
  Numbers numbers_;
  Channel channel_ = Channel::kPlain;
  Nonce nonce_{};
  Transcript transcript_;
  Step step_ = Step::kBegin;
  std::string out_;
  std::array<std::byte, Hello::kBytes> room_{};
  std::size_t awaited_ = 0;  ///< Of `room_`.
  std::size_t filled_ = 0;   ///< Of what is awaited.
  std::unique_ptr<TlsStream> stream_;
};

/// The connecting end, waiting. Errors: as Handshake's, and retry later at the deadline.
Result<Connection> ShakeHands(UniqueFd socket, const Party& party, const Numbers& numbers,
                              const Wait& wait);

/// Continues a handshake to its end. Errors: as ShakeHands.
Status Finish(Handshake& handshake, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_HANDSHAKE_H_
