#ifndef TFOS_FEED_NODE_SESSION_OUTGOING_H_
#define TFOS_FEED_NODE_SESSION_OUTGOING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "feed/wire/outbox.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// Messages of a node to its feeders that their sockets have not asked for yet.
///
/// What a feeder does not read does not pile up. Its credits are added up, that the program goes on
/// is said once, and a feeder that asks on without reading the answers is refused (`overfull`).
/// The sender of results bounds them.
///
/// Owner and lifetime: a value; it borrows the lines. Threads: one at a time. Errors: none.
class Outgoing {
 public:
  /// More bytes of plain frames than this, and the feeder has not read for a while.
  static constexpr std::uint64_t kMostWaitingBytes = 1 << 20;

  /// The side of it of one feeder.
  struct Line {
    std::uint64_t id = 0;

    /// Nothing more is said after what was posted, and what the feeder still sends is discarded.
    bool said_last_word() const { return last_word_; }
    /// All was taken.
    bool empty() const { return posted_.empty() && credits_ == 0 && !progress_; }
    bool overfull() const { return plain_bytes_ > kMostWaitingBytes; }

   private:
    friend class Outgoing;

    std::vector<OutFrame> posted_;
    std::uint64_t plain_bytes_ = 0;  ///< Of `posted_`, without results.
    std::uint32_t credits_ = 0;      ///< To be said as one CREDIT.
    bool progress_ = false;          ///< PROGRESS is to be said.
    bool listed_ = false;            ///< Among `changed_`.
    bool last_word_ = false;
  };

  /// Nothing happens after the last word.
  void Post(Line& line, OutFrame frame);
  void PostLast(Line& line, std::string frame);
  void PostProgress(Line& line);
  void AddCredits(Line& line, std::uint32_t credits);

  /// Whether TakeChanged has something that it had not when this was last asked.
  bool TakeNews();
  /// The ids of the lines that something is to be said to. Each is listed again only after Take.
  std::vector<std::uint64_t> TakeChanged();
  /// All that is to be said, in order. `accepted` goes with the credits.
  std::vector<OutFrame> Take(Line& line, const AcceptedBytes& accepted);

 private:
  void List(Line& line);

  std::vector<std::uint64_t> changed_;
  bool news_ = false;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_OUTGOING_H_
