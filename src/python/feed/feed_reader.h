#ifndef TFOS_PYTHON_FEED_FEED_READER_H_
#define TFOS_PYTHON_FEED_FEED_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "feed/node/feed_server.h"
#include "node/node_feed.h"
#include "python/codec/row_columns.h"
#include "python/codec/row_decoder.h"
#include "python/codec/row_encoder.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// The program's end of one queue of a node's feed: rows in batches of any size, as objects or as
/// columns, and results.
///
/// Owner and lifetime: shares the feed. Holds at most one chunk, and never while it waits.
/// Threads: one at a time for NextRows and NextColumns and one for SendResults and SendColumns; a
/// second one is told so. With the GIL, which is released in all waits.
/// Errors: throws as errors.h says. A failed call loses no row: the next one returns them.
class FeedReader {
 public:
  FeedReader(std::shared_ptr<node::NodeFeed> feed, std::string queue)
      : feed_(std::move(feed)), queue_(std::move(queue)), encoder_(server().pickles()) {}
  ~FeedReader();
  FeedReader(const FeedReader&) = delete;
  FeedReader& operator=(const FeedReader&) = delete;

  /// Waits for `count` rows. Returns fewer only at the end of the feed and, unless
  /// `cross_partition`, at the end of an inference partition that had some. Without
  /// `timeout_seconds` it waits as long as it takes.
  nb::list NextRows(std::size_t count, bool cross_partition, std::optional<double> timeout_seconds);

  /// The same as columns: a list of one NumPy array for each name, all of one length. See
  /// RowColumns. When a call fails, the next one must want the same names.
  nb::list NextColumns(const std::vector<std::string>& names, std::size_t count,
                       bool cross_partition, std::optional<double> timeout_seconds);

  /// True once the end of the feed was reached and all rows were handed out.
  bool ended() const { return (ended_ || stopped()) && !has_rows(); }

  /// Answers the oldest unanswered inference rows, one result for each.
  ///   BadInputError  more results than unanswered rows; none was sent
  void SendResults(nb::list results);

  /// The same with whole columns, see ResultColumns. False, and nothing was sent, when one of them
  /// has values that only a pickle can hold: then they must be sent as rows.
  bool SendColumns(const std::optional<std::vector<std::string>>& names, nb::list columns);

  /// The program has ended: fails the partitions that lack results.
  ///   BadInputError  there are some; the first one and its counts
  void Finish();

 private:
  /// A partition of which rows were handed out and not all were answered.
  struct Session {
    std::uint64_t id = 0;
    std::uint32_t partition = 0;
    std::uint64_t handed_out = 0;
    std::uint64_t answered = 0;
    bool complete = false;  ///< All its rows were handed out.
    bool broken = false;    ///< Its feeder is gone: results are dropped.
  };
  struct Chunk {
    feed::ChunkLoan loan;
    AlignedBuffer columns;                ///< Made of a pickled one, if not empty.
    std::unique_ptr<RowDecoder> decoder;  ///< Borrows the loan's bytes, or those.
    std::uint64_t taken = 0;              ///< Its rows that were, here or elsewhere.
  };

  /// Takes from the queue until `wanted()` is 0, which `take` (how many) lowers by what it takes
  /// from the chunk; less when the feed or, unless `cross_partition`, a partition ends.
  template <typename Wanted, typename Take>
  void Read(bool cross_partition, std::optional<double> timeout_seconds, Wanted wanted, Take take);
  /// Whether there are rows that were taken and not yet returned.
  bool has_rows() const;
  void Open(Chunk& chunk, bool as_columns);
  /// How many of `wanted` rows come next in the chunk, which is open. Passes over those of an
  /// earlier cluster before.
  static std::size_t RowsAhead(Chunk& chunk, std::size_t wanted);
  /// Accounts for rows that were taken from the chunk, and lets go of it when that was all.
  void OnTaken(std::size_t count);
  void LetGoOfChunk();
  void OnPartitionEnd(const feed::PartitionEnd& end);
  Session& SessionOf(const feed::ChunkLoan& loan);
  void CheckUnanswered(std::size_t results) const;
  /// `Results` is what ResultColumns is; its Fill may say no when they have been planned anew.
  template <typename Results>
  void Send(Results& results);
  template <typename Results>
  void SendRange(Session& session, std::size_t begin, std::size_t end, Results& results);
  void FinishAnsweredSessions();

  feed::FeedServer& server() { return feed_->server(); }
  /// By `tfos stop`: rows that came and were not read stay unread.
  bool stopped() const { return feed_->server().reading_stopped(); }

  std::shared_ptr<node::NodeFeed> feed_;
  const std::string queue_;
  std::optional<Chunk> chunk_;
  ObjectVector rows_;                    ///< Taken, not yet returned.
  std::unique_ptr<RowColumns> columns_;  ///< Likewise, for the names of the last call.
  bool convertible_ = true;              ///< No pickled chunk has turned out to have no columns.
  bool ended_ = false;
  bool reading_ = false;
  bool answering_ = false;
  std::deque<Session> sessions_;  ///< Oldest first. SendResults alone removes the front.
  RowEncoder encoder_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_FEED_FEED_READER_H_
