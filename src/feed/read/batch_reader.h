#ifndef TFOS_FEED_READ_BATCH_READER_H_
#define TFOS_FEED_READ_BATCH_READER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/thread/turn.h"
#include "base/time/wait.h"
#include "columns/batch_columns.h"
#include "feed/node/feed_server.h"
#include "feed/read/batch.h"
#include "feed/read/chunk_opener.h"
#include "feed/read/pending_rows.h"
#include "feed/read/position/epoch_log.h"
#include "feed/read/row_chunk.h"
#include "feed/wire/item_ranges.h"
#include "tfos/status.h"

namespace tfos::feed {

using BatchResult = std::variant<Batch, EndOfEpoch, EndOfFeed>;

/// Cuts the rows of one queue of a node's training feed into batches of columns. A batch that lies
/// inside one chunk is handed out where it is, without a copy.
///
/// Owner and lifetime: borrows the server, which must outlive it; batches outlive both.
/// Threads: any; a second caller waits for the first, as long as its own wait says.
/// Errors: kBadInput for rows that do not make columns (nested ones, None) or not of the wanted
/// types, and for an inference feed; each further call then fails in the same way. kRetryLater and
/// what the interrupt check returned end a wait only: the next call goes on where this one stopped.
/// So it does after kNoResources and after an exception.
/// Units: rows.
///
/// Rows are read in the order of the queue. A batch does not cross the end of an epoch. It is up
/// to consumers how long they keep batches: when the next chunk does not come while batches are
/// kept, the feeder may be waiting for their memory. The reader then gives it back and leaves a
/// copy where the bytes were. As long as such copies are kept, it copies rather than lends.
/// A feeder that wants to know what the program has read (SessionOptions::until_read) hears that
/// when the batches are handed out. It waits for that, and not for the batch to fill up: rows that
/// wait for the rest of theirs count as read when no other chunk comes. A node that is lost then
/// takes them along, fewer than a batch.
class BatchReader {
 public:
  using Converter = ChunkOpener::Converter;

  BatchReader(FeedServer& server, std::string queue, Converter converter);

  /// The columns of the first chunk that was not read yet; waits for it. When the feed ends without
  /// one, those of the last chunk, which may be a sample of other nodes' rows; none if there was
  /// none at all. A column without a name has that
  /// of its position, from 0.
  /// Where the lists of one of the columns `lists` were all empty, it reads on until one is not. It
  /// stops at the end of the epoch, and after some chunks.
  Result<std::optional<std::vector<columns::BatchColumnType>>> Peek(
      std::span<const std::string> lists, const Wait& wait);

  /// Likewise of the last chunk that came, and without waiting if there was one.
  Result<std::optional<std::vector<columns::BatchColumnType>>> KnownColumns(const Wait& wait);

  /// The next batch, of `options.rows` rows or, before the end of an epoch and unless
  /// `drop_remainder`, fewer:
  ///   Batch       never an empty one
  ///   EndOfEpoch  all rows of the epoch were handed out. The last epoch needs no mark of its own:
  ///               the end of the feed ends it, and then it does not count as whole
  ///   EndOfFeed   now and for ever
  Result<BatchResult> Next(const BatchOptions& options, const Wait& wait);

  /// What is there to make batches of.
  struct Ahead {
    std::uint64_t rows = 0;
    /// These are the last of the epoch.
    bool epoch_over = false;
    /// And no epoch follows.
    bool feed_over = false;
    std::uint32_t epoch = 0;  ///< Theirs.
    /// How many of the rows, the last ones, may be passed on.
    std::uint64_t passable_rows = 0;
    /// Their feeders wait until they are read: they stay where they are.
    bool until_read = false;
  };
  /// Waits for the rows of one batch or the end of the epoch, and then takes up to `batches`
  /// batches as far as they are there. Next does not wait for what this has counted.
  Result<Ahead> LookAhead(const BatchOptions& options, std::uint64_t batches, const Wait& wait);

  /// The same without waiting: what there is by now, which may be no row.
  Result<Ahead> LookNow(const BatchOptions& options, std::uint64_t batches, const Wait& turn);

  /// For an epoch that ends with different numbers of rows on the nodes: takes all that this node
  /// has got of it, waiting for its end. That is worth it when no more rows come to any node.
  Result<Ahead> LookToEnd(const BatchOptions& options, const Wait& wait);

  /// After LookToEnd: hands out rows of its end, which this reader then has no more, to `pass`
  /// (chunk, rows of the chunk), one chunk after the other. Those that it did not take stay. `wait`
  /// is for other callers of this reader. kBadInput: fewer are left, as others have read them.
  using PassRows = PendingRows::PassRows;
  Status PassOn(std::uint64_t rows, const PassRows& pass, const Wait& wait);

  /// kBadInput: what a caller has seen ahead is gone, as another one has read it. `rows`: what that
  /// was.
  Status ReadByOthers(std::string_view rows) const;

  struct PassedRows {
    std::uint32_t from = 0;  ///< The id of the node that has passed them on.
    std::uint64_t rows = 0;
  };
  /// After LookToEnd: takes a chunk of rows that another node has passed on.
  Result<PassedRows> TakePassed(const BatchOptions& options, std::uint32_t epoch, const Wait& wait);

  /// Drops what is left of the epoch, waiting for it to its end, and takes that end: EndOfEpoch or
  /// EndOfFeed. Goes on where it stopped when the wait has failed.
  Result<BatchResult> EndEpoch(const Wait& wait);

  /// The epoch that is read next, as long as no row of it was taken; none in the middle of one.
  Result<std::optional<std::uint32_t>> EpochToBegin(const Wait& turn);
  /// For a node that comes late: reads on from this epoch, and past the ends of those before it.
  Status BeginAt(std::uint32_t epoch, const Wait& turn);

  /// Remembers from now on what batches are made of. Idempotent.
  void KeepLog() { log_.Begin(); }
  /// What the program has trained on once it has used the first `batches` of the epoch. None: it is
  /// not known.
  std::optional<EpochLog::Position> PositionAfter(std::uint32_t epoch, std::uint64_t batches) {
    return log_.Of(epoch, batches);
  }
  /// As EpochLog::BatchesOf.
  std::optional<std::uint64_t> BatchesOf(std::uint32_t epoch) { return log_.BatchesOf(epoch); }
  /// As EpochLog::OnOtherPass.
  void NoteOtherPass() { log_.OnOtherPass(); }
  /// A batch without a row that was made beside this reader.
  void NoteEmptyBatch(std::uint32_t epoch) { log_.OnBatch(epoch, {}); }

  /// Nothing will come any more, whatever is left: the program asked for that, or the feed is gone.
  bool terminated() const { return server_.terminated(); }

  /// As FeedServer::reading_stopped.
  bool stopped() const { return server_.reading_stopped(); }

  std::uint32_t node_id() const { return server_.endpoint().node_id; }

  /// Rows that were in no batch: by EndEpoch and by `drop_remainder`.
  std::uint64_t dropped_rows() const { return dropped_rows_; }

  /// How often Next has returned EndOfEpoch.
  std::uint64_t epochs() const { return epochs_; }
  /// Of these, those that the driver has ended: not one that ended with the feed.
  std::uint64_t whole_epochs() const { return whole_epochs_; }

 private:
  /// Until so many rows are pending, or the epoch is over.
  Status FillPending(const BatchOptions& options, std::uint64_t rows, const Wait& wait)
      TFOS_REQUIRES(turn_);
  /// Until so many rows are pending, or the chunk has no more.
  Status TakeFromChunk(const BatchOptions& options, std::uint64_t rows) TFOS_REQUIRES(turn_);
  Status Remember(Status status) TFOS_REQUIRES(turn_);
  bool EpochOver() const TFOS_REQUIRES(turn_) {
    return !epoch_ends_.empty() || (chunk_ == nullptr && ended_);
  }
  /// The next of the queue, or the chunk that could not be opened when it came.
  Result<feed::Next> NextOfQueue(const Wait& wait) TFOS_REQUIRES(turn_);
  Status Fetch(const Wait& wait) TFOS_REQUIRES(turn_);
  Status FetchUnlessFailed(const Wait& wait) TFOS_REQUIRES(turn_);
  Status TakeNext(feed::Next next) TFOS_REQUIRES(turn_);
  Status TakeChunk(ChunkLoan loan) TFOS_REQUIRES(turn_);
  /// Until so many rows are pending, as far as they are there.
  Status TakeWhatIsThere(const BatchOptions& options, std::uint64_t rows) TFOS_REQUIRES(turn_);
  Ahead WhatIsAhead() const TFOS_REQUIRES(turn_);
  /// Until there is a chunk or a sample, or the feed is over.
  Status FetchFirst(const Wait& wait) TFOS_REQUIRES(turn_);
  /// Whether it is known what all of these columns hold.
  bool Known(std::span<const std::string> columns) const TFOS_REQUIRES(turn_);
  void SetTypes(std::vector<columns::BatchColumnType> types) TFOS_REQUIRES(turn_);
  /// Some of the next rows of the chunk, at most so many; passes over those of an earlier cluster.
  void TakeRows(std::uint64_t count) TFOS_REQUIRES(turn_);
  /// Past rows of the chunk that an earlier cluster has trained on.
  void PassOverTrained() TFOS_REQUIRES(turn_);
  /// Of the rows that are pending.
  std::uint32_t EpochOfPending() const TFOS_REQUIRES(turn_) {
    return epoch_ends_.empty() ? next_epoch_ : epoch_ends_.front();
  }
  void DropPending() TFOS_REQUIRES(turn_);
  /// Rows may be passed on, if `looks_ahead`.
  void BeginReading(bool looks_ahead) TFOS_REQUIRES(turn_);
  /// Other nodes may count on pending rows, or may come to: PassOn needs what they came from.
  bool PendingArePromised() const TFOS_REQUIRES(turn_) {
    return !looks_ahead_ || (*looks_ahead_ && EpochOver());
  }
  BatchResult AtEnd() TFOS_REQUIRES(turn_);

  FeedServer& server_;
  const std::string queue_;

  Turn turn_;
  ChunkOpener opener_ TFOS_GUARDED_BY(turn_);
  /// Whether the rows are read by a caller that looks ahead. None: there were peeks only.
  std::optional<bool> looks_ahead_ TFOS_GUARDED_BY(turn_);
  // In the order of the queue: what is pending, the ends of epochs, the chunk, the one to be
  // opened.
  PendingRows pending_ TFOS_GUARDED_BY(turn_);
  std::deque<std::uint32_t> epoch_ends_ TFOS_GUARDED_BY(turn_);
  std::shared_ptr<const RowChunk> chunk_ TFOS_GUARDED_BY(turn_);
  std::shared_ptr<LentMemory> unread_
      TFOS_GUARDED_BY(turn_);                          ///< Of `chunk_`, as PendingRows::Add.
  std::uint64_t next_row_ TFOS_GUARDED_BY(turn_) = 0;  ///< Of `chunk_`.
  ItemRanges trained_before_ TFOS_GUARDED_BY(turn_);   ///< Likewise.
  /// A chunk that has come: opening it again may succeed.
  std::optional<ChunkLoan> unopened_ TFOS_GUARDED_BY(turn_);
  /// Likewise of rows that another node has passed on, for this epoch.
  std::optional<ChunkLoan> unopened_passed_ TFOS_GUARDED_BY(turn_);
  std::uint32_t unopened_epoch_ TFOS_GUARDED_BY(turn_) = 0;
  /// The column types of the last chunk. What lists hold that were all empty in it is what they
  /// held before.
  std::optional<std::vector<columns::BatchColumnType>> types_ TFOS_GUARDED_BY(turn_);
  /// By a chunk without rows for this node, the last that came.
  bool sampled_ TFOS_GUARDED_BY(turn_) = false;
  bool ended_ TFOS_GUARDED_BY(turn_) = false;
  /// Some came since the last end of an epoch.
  bool rows_in_epoch_ TFOS_GUARDED_BY(turn_) = false;
  std::uint32_t next_epoch_ TFOS_GUARDED_BY(turn_) = 0;
  Status failure_ TFOS_GUARDED_BY(turn_);

  std::atomic<std::uint64_t> epochs_ = 0;
  std::atomic<std::uint64_t> whole_epochs_ = 0;
  std::atomic<std::uint64_t> dropped_rows_ = 0;
  EpochLog log_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_BATCH_READER_H_
