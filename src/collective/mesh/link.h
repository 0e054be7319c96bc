#ifndef TFOS_COLLECTIVE_MESH_LINK_H_
#define TFOS_COLLECTIVE_MESH_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/memory/aligned_buffer.h"
#include "collective/operation/element.h"
#include "collective/operation/operation.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::collective {

/// One end of the connection of two members: frames of docs/formats/tensor-protocol.md over a
/// stream, in both directions at a time. It never waits: `Push` and `Pull` move what can be moved
/// now, and their caller polls `fd()`, or what moves a stream beside the socket.
///
/// Owner and lifetime: of a Mesh; owns the stream. What was given to `Send` and `Receive` must
/// stay until it is done. Threads: one at a time. Errors: reconnect when the peer is gone or gave
/// up, with what it said; bad input when it does something else than this side. After one nothing
/// is to be called but `Abort`.
class Link {
 public:
  /// `peer` is what messages call the other member.
  Link(std::unique_ptr<net::Stream> stream, std::string peer);

  int fd() const { return stream_->fd(); }
  bool beside_socket() const { return stream_->beside_socket(); }
  std::string DescribeStream() const { return stream_->Describe(); }
  const std::string& peer() const { return peer_; }

  /// All that is sent and received from now on belongs to `operation`, which the peer is told
  /// with the first `Send` and must do, too. Nothing may be under way.
  void Begin(const Operation& operation);

  /// What was given to `Send` is being sent. An empty one just says which operation is done.
  void Send(std::span<const std::byte> data);
  bool sending() const { return !head_.empty() || !data_.empty(); }
  Status Push();

  /// Fills `room`, or adds elements of type `add` to what is in it. An empty one waits for the
  /// peer to do the same operation.
  void Receive(std::span<std::byte> room, std::optional<DType> add);
  bool receiving() const { return !room_.empty() || (receive_wanted_ && !agreed_); }
  Status Pull();
  /// Bytes moved so far. While somebody waits, this must change.
  std::uint64_t moved() const { return moved_; }
  /// The peer is known to do the operation, too.
  bool agreed() const { return agreed_; }

  /// Has the peer told that this side waits for `member`, if it is not in the middle of a frame.
  void TellWaiting(std::uint32_t member);
  /// Whom the peer waits for in the current operation, as far as it said.
  std::optional<std::uint32_t> waits_for() const { return waits_for_; }

  /// Tells the peer that this side has begun the operations below the number `begun`, and begins
  /// none any more. Nothing may be under way.
  void TellLeft(std::uint64_t begun);
  /// The peer has said so.
  bool left() const { return left_; }
  /// The number after the last operation of a peer that has left.
  std::uint64_t begun() const { return begun_; }
  /// Has the peer told of the operation also if nothing is sent to it: one that has left waits for
  /// that.
  void Announce();
  /// Looks for the next operation of the peer, as far as it has said, while nothing is under way.
  /// What it said of those before `number` is passed over.
  Result<std::optional<Operation>> Peek(std::uint64_t number);
  /// The peer has left and is gone; there is nothing to wait for.
  bool ended() const { return ended_; }

  /// The peer has closed its end: why, as far as it has said. OK once both have left: then it had
  /// nothing more to hear.
  Status OnHangUp();

  /// Tells the peer why this side can't go on, if there is a way. Only `Close` may follow.
  void Abort(const std::string& why);
  /// Closes the connection; what was given to `Send` and `Receive` is free again.
  void Close() { stream_.reset(); }

 private:
  static AlignedBuffer MakeStaging();
  /// Received bytes that have not been looked at.
  std::span<std::byte> Staged() {
    return staging_.bytes().subspan(staged_begin_, staged_end_ - staged_begin_);
  }
  /// Where more can be staged; all there is once it is compact.
  std::span<std::byte> StagingRoom() { return staging_.bytes().subspan(staged_end_); }
  /// Bytes that the frame which begins there, or its header, still lacks.
  std::size_t LackingOfFrame();
  /// Makes use of what is staged. False when more must come first, or nothing is wanted now.
  Result<bool> TakeStaged();
  Result<bool> TakePayload();
  /// Takes the frame that begins there. False when it is not complete, or is of a later operation.
  Result<bool> TakeFrame();
  /// As Operation::Parse, with the peer's name in what is refused.
  Result<Operation> ParseOperation(std::span<const std::byte> body) const;
  Status OnOperation(std::span<const std::byte> body);
  Status Gone(const Status& cause) const;
  /// Nothing can be sent to the peer any more.
  Status OnBroken(const Status& cause);
  /// Takes what the peer has said until it says something of an operation.
  void TakeWhatCame();
  /// What the peer has said before its end, else that it is gone. Nothing else is read any more.
  /// A peer that sends without end is gone, too, after as much as may have been on its way.
  Status LastWords(const Status& cause);
  /// For a stream beside its socket: looks for the peer's last words there, which may take a
  /// moment.
  Result<net::Transfer> ReceiveLastWords(std::span<std::byte> space);
  /// The peer has closed the socket beside which the stream is.
  bool SocketEnded() const;
  void QueueData();
  /// Makes room behind what is staged.
  void Compact();

  const std::string peer_;
  Operation operation_;

  // Sending: a head (frames, and the header of one with data), then the data of that frame.
  bool announced_ = false;  ///< The peer has been told of the operation.
  std::string head_;
  std::size_t head_sent_ = 0;
  std::span<const std::byte> frame_;  ///< Of the current DATA frame, what is left.
  std::span<const std::byte> data_;   ///< All that is left, `frame_` included.

  // Receiving.
  AlignedBuffer staging_;
  /// What was staged when a stream beside the socket broke, which may still write to it.
  AlignedBuffer left_to_stream_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  std::uint32_t payload_left_ = 0;  ///< Of the current DATA frame.
  bool receive_wanted_ = false;
  bool agreed_ = false;        ///< The peer does the same operation.
  std::span<std::byte> room_;  ///< What is left of it.
  std::optional<DType> add_;
  std::optional<std::uint32_t> waits_for_;
  Status broken_;  ///< Sending has failed.
  std::uint64_t moved_ = 0;
  bool left_ = false;
  std::uint64_t begun_ = 0;
  bool told_left_ = false;
  bool ended_ = false;

  /// Last, so that it is gone before the bytes that it may be moving.
  std::unique_ptr<net::Stream> stream_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_LINK_H_
