#include "python/feed/feed_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "base/time/seconds.h"
#include "datasets/row_converter.h"
#include "python/codec/result_columns.h"
#include "python/objects/errors.h"
#include "python/objects/exclusive.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

// Results are sent in chunks of about this size at most, unless one row alone is larger.
constexpr std::uint64_t kResultChunkBytes = 8 << 20;

/// A list of results, each an object, on its way into chunks.
class ResultRows {
 public:
  ResultRows(RowEncoder& encoder, nb::list rows) : encoder_(encoder), rows_(std::move(rows)) {}

  std::size_t rows() const { return nb::len(rows_); }
  void Plan(std::size_t begin, std::size_t end) { encoder_.Plan(rows_, begin, end); }
  std::uint64_t bytes() const { return encoder_.bytes(); }
  bool Fill(std::span<std::byte> out) { return encoder_.Fill(out); }

 private:
  RowEncoder& encoder_;
  nb::list rows_;
};

/// Passes over up to `count` rows and returns how many: fewer only at the end.
std::uint64_t PassOver(RowDecoder& decoder, std::uint64_t count) {
  if (!decoder.columnar()) {
    ObjectVector passed_over;
    return decoder.Take(count, passed_over);
  }
  count = std::min<std::uint64_t>(count, decoder.rows_left());
  decoder.Skip(count);
  return count;
}

[[noreturn]] void ThrowUnfinished(const RowColumns& columns) {
  ThrowStatus(
      Status(ErrorKind::kBadInput,
             fmt::format("a batch of the columns {} is unfinished, as reading it failed: go "
                         "on with the same input_mapping",
                         fmt::join(columns.names(), ", "))));
}

}  // namespace

FeedReader::~FeedReader() {
  if (chunk_) LetGoOfChunk();
}

nb::list FeedReader::NextRows(std::size_t count, bool cross_partition,
                              std::optional<double> timeout_seconds) {
  const OneCaller only(reading_, "next_rows", "reader of a feed");
  if (columns_ != nullptr && columns_->rows() != 0) ThrowUnfinished(*columns_);
  Read(
      cross_partition, timeout_seconds, [&] { return count - std::min(count, rows_.size()); },
      [&](std::size_t wanted) {
        Open(*chunk_, false);
        wanted = RowsAhead(*chunk_, wanted);
        OnTaken(chunk_->decoder->Take(wanted, rows_));
      });
  return rows_.TakeFront(std::min(count, rows_.size()));
}

nb::list FeedReader::NextColumns(const std::vector<std::string>& names, std::size_t count,
                                 bool cross_partition, std::optional<double> timeout_seconds) {
  const OneCaller only(reading_, "next_columns", "reader of a feed");
  if (columns_ == nullptr || columns_->names() != names) {
    if (columns_ != nullptr && columns_->rows() != 0) ThrowUnfinished(*columns_);
    columns_ = std::make_unique<RowColumns>(names);
  }
  const auto wanted = [&] { return count - std::min(count, columns_->rows()); };
  const auto take_rows = [&] {
    const std::size_t some = std::min(wanted(), rows_.size());
    columns_->AddRows({rows_.data(), some}, wanted());
    rows_.DropFront(some);
  };
  take_rows();
  Read(cross_partition, timeout_seconds, wanted, [&](std::size_t room) {
    Open(*chunk_, true);
    room = RowsAhead(*chunk_, room);
    RowDecoder& decoder = *chunk_->decoder;
    if (decoder.columnar()) {
      OnTaken(columns_->AddFrom(decoder, room));
    } else {
      // By way of `rows_`, where they stay if they have not the columns.
      OnTaken(decoder.Take(room, rows_));
      take_rows();
    }
  });
  return columns_->Take();
}

template <typename Wanted, typename Take>
void FeedReader::Read(bool cross_partition, std::optional<double> timeout_seconds, Wanted wanted,
                      Take take) {
  bool waits_no_more = false;
  const Wait wait{
      .deadline = timeout_seconds
                      ? Deadline::After(SaturatingSeconds<Clock::Duration>(*timeout_seconds))
                      : Deadline::Infinite(),
      .check = [&]() -> Status {
        TFOS_RETURN_IF_ERROR(CheckSignals());
        if (!stopped()) return {};
        waits_no_more = true;
        return {ErrorKind::kInterrupted, "the cluster is being stopped"};
      }};
  ended_ = ended_ || stopped();
  while (wanted() != 0 && !ended_) {
    if (chunk_) {
      take(wanted());
      continue;
    }
    Result<feed::Next> came = WithoutGil([&] { return server().Next(queue_, wait); });
    if (!came.ok() && waits_no_more) {
      ended_ = true;
      break;
    }
    feed::Next next = ValueOrThrow(std::move(came));
    if (auto* loan = std::get_if<feed::ChunkLoan>(&next)) {
      if (loan->is_sample()) {
        WithoutGil([loan] { loan->Release(); });
        continue;
      }
      // Not emplace(): Clang takes a nested class for not yet constructible within its class.
      Chunk chunk;
      chunk.loan = std::move(*loan);
      chunk_ = std::move(chunk);
    } else if (const auto* end = std::get_if<feed::PartitionEnd>(&next)) {
      OnPartitionEnd(*end);
      if (!cross_partition && has_rows()) break;
    } else if (std::holds_alternative<feed::EndOfFeed>(next)) {
      ended_ = true;
    }  // What reads rows does not stop at the end of an epoch.
  }
}

bool FeedReader::has_rows() const {
  return rows_.size() != 0 || (columns_ != nullptr && columns_->rows() != 0);
}

void FeedReader::Open(Chunk& chunk, bool as_columns) {
  if (chunk.decoder != nullptr) return;
  auto decoder = std::make_unique<RowDecoder>(chunk.loan.bytes(), server().pickles());
  AlignedBuffer columns;
  if (as_columns && !decoder->columnar() && convertible_) {
    Result<AlignedBuffer> converted = datasets::ConvertToColumns(chunk.loan.bytes());
    // Rows without common columns may have some of those that are wanted: they are looked at one by
    // one, as will be those of later chunks, which are most likely of the same kind.
    const bool interrupted =
        !converted.ok() && converted.status().kind() == ErrorKind::kInterrupted;
    if (interrupted) ThrowStatus(converted.status());
    convertible_ = converted.ok();
    if (convertible_) {
      columns = std::move(*converted);
      decoder = std::make_unique<RowDecoder>(columns.bytes());
    }
  }
  chunk.taken = PassOver(*decoder, chunk.loan.rows_read());
  // Last: whatever failed before has left the chunk to be opened again.
  chunk.columns = std::move(columns);
  chunk.decoder = std::move(decoder);
}

std::size_t FeedReader::RowsAhead(Chunk& chunk, std::size_t wanted) {
  const feed::ItemRanges& trained = chunk.loan.trained_before();
  if (const auto passed = trained.From(chunk.taken); passed.contained) {
    chunk.taken += PassOver(*chunk.decoder, passed.end - chunk.taken);
  }
  return std::min<std::uint64_t>(wanted, trained.From(chunk.taken).end - chunk.taken);
}

void FeedReader::OnTaken(std::size_t count) {
  feed_->CountRows(count);
  chunk_->taken += count;
  if (chunk_->loan.mode() == feed::Mode::kInference) {
    SessionOf(chunk_->loan).handed_out += count;
  }
  // The feed's lock is taken without the GIL: its holder must never wait for Python.
  if (chunk_->decoder->at_end()) {
    LetGoOfChunk();
  } else if (chunk_->loan.until_read()) {
    WithoutGil([&] { chunk_->loan.MarkRead(chunk_->taken); });
  }
}

void FeedReader::LetGoOfChunk() {
  feed::ChunkLoan read = std::move(chunk_->loan);
  chunk_.reset();
  WithoutGil([&] { read.Release(); });
}

FeedReader::Session& FeedReader::SessionOf(const feed::ChunkLoan& loan) {
  if (sessions_.empty() || sessions_.back().id != loan.session()) {
    sessions_.push_back({.id = loan.session(), .partition = loan.partition()});
  }
  return sessions_.back();
}

void FeedReader::OnPartitionEnd(const feed::PartitionEnd& end) {
  if (sessions_.empty() || sessions_.back().id != end.session) {
    sessions_.push_back({.id = end.session, .partition = end.partition});
  }
  sessions_.back().complete = true;
  sessions_.back().broken = sessions_.back().broken || end.broken;
  // A sender that is at work does it itself when it is through.
  if (!answering_) FinishAnsweredSessions();
}

void FeedReader::FinishAnsweredSessions() {
  while (!sessions_.empty() && sessions_.front().complete &&
         sessions_.front().answered == sessions_.front().handed_out) {
    const Session session = sessions_.front();
    sessions_.pop_front();
    if (session.broken) continue;
    // A feeder that is gone by now needs no answer: Spark runs its partition again.
    const auto finished =
        WithoutGil([&] { return server().FinishSession(session.id, session.answered); });
    ThrowIfError(finished.status());
  }
}

void FeedReader::CheckUnanswered(std::size_t results) const {
  std::uint64_t unanswered = 0;
  for (const Session& session : sessions_) unanswered += session.handed_out - session.answered;
  if (results <= unanswered) return;
  std::string message = fmt::format("{} results for {} unanswered rows", results, unanswered);
  if (!sessions_.empty()) {
    const Session& last = sessions_.back();
    message += fmt::format(" (partition {}: {} rows were handed out, {} are answered)",
                           last.partition, last.handed_out, last.answered);
  }
  ThrowStatus(Status(ErrorKind::kBadInput, std::move(message)));
}

void FeedReader::SendResults(nb::list results) {
  const OneCaller only(answering_, "send_results", "reader of a feed");
  ResultRows rows(encoder_, std::move(results));
  Send(rows);
}

bool FeedReader::SendColumns(const std::optional<std::vector<std::string>>& names,
                             nb::list columns) {
  const OneCaller only(answering_, "send_columns", "reader of a feed");
  std::optional<ResultColumns> results = ResultColumns::Open(names, std::move(columns));
  if (results) Send(*results);
  return results.has_value();
}

template <typename Results>
void FeedReader::Send(Results& results) {
  const std::size_t total = results.rows();
  CheckUnanswered(total);
  for (std::size_t sent = 0; sent < total;) {
    Session& session = sessions_.front();
    const std::size_t some =
        std::min<std::size_t>(total - sent, session.handed_out - session.answered);
    SendRange(session, sent, sent + some, results);
    sent += some;
    FinishAnsweredSessions();
  }
}

template <typename Results>
void FeedReader::SendRange(Session& session, std::size_t begin, std::size_t end, Results& results) {
  while (begin < end) {
    std::size_t next = end;
    if (!session.broken) {
      results.Plan(begin, next);
      while (results.bytes() > kResultChunkBytes && next - begin > 1) {
        next = begin + (next - begin) / 2;
        results.Plan(begin, next);
      }
      std::optional<AlignedBuffer> chunk;
      do {
        chunk.emplace(results.bytes());
        if (chunk->size() != results.bytes()) throw std::bad_alloc();
      } while (!results.Fill(chunk->bytes()));
      const auto delivery = ValueOrThrow(WithoutGil([&] {
        return server().SendResult(session.id, next - begin, std::move(*chunk),
                                   {.deadline = Deadline::Infinite(), .check = &CheckSignals});
      }));
      session.broken = delivery == feed::Delivery::kDiscarded;
    }
    session.answered += next - begin;
    begin = next;
  }
}

void FeedReader::Finish() {
  // Nobody waits for the results of a cluster that is being stopped.
  if (server().terminated() || stopped()) return;
  for (const Session& session : sessions_) {
    if (session.broken) continue;
    const std::string text = fmt::format(
        "the program ended with partition {} unfinished: it took {} of its rows and gave {} "
        "results",
        session.partition, session.handed_out, session.answered);
    WithoutGil([&] { server().Fail(text); });
    ThrowStatus(Status(ErrorKind::kBadInput, text));
  }
}

}  // namespace tfos::python
