#include "python/feed_reader.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <variant>

#include "base/format.h"
#include "feed/aligned_buffer.h"
#include "python/errors.h"
#include "python/gil.h"

namespace tfos::python {
namespace {

// Results are sent in chunks of about this size at most, unless one row alone is larger.
constexpr std::uint64_t kResultChunkBytes = 8 << 20;

/// Marks a method as running and refuses a second caller. Needs the GIL.
class OneCaller {
 public:
  OneCaller(bool& running, const char* method) : running_(running) {
    if (running_) {
      ThrowStatus(Status(ErrorKind::kBadInput,
                         fmt::format("another thread is in {} of this feed already", method)));
    }
    running_ = true;
  }
  ~OneCaller() { running_ = false; }
  OneCaller(const OneCaller&) = delete;
  OneCaller& operator=(const OneCaller&) = delete;

 private:
  bool& running_;
};

}  // namespace

nb::list FeedReader::NextRows(std::size_t count, bool cross_partition,
                              std::optional<double> timeout_seconds) {
  const OneCaller only(reading_, "next_rows");
  const feed::Wait wait{
      .deadline = timeout_seconds ? Deadline::After(std::chrono::duration_cast<Clock::Duration>(
                                        std::chrono::duration<double>(*timeout_seconds)))
                                  : Deadline::Infinite(),
      .check = &CheckSignals};
  while (rows_.size() < count && !ended_) {
    if (chunk_) {
      TakeFromChunk(count - rows_.size());
      continue;
    }
    feed::Next next = ValueOrThrow(WithoutGil([&] { return server().Next(queue_, wait); }));
    if (auto* loan = std::get_if<feed::ChunkLoan>(&next)) {
      chunk_.emplace();
      chunk_->loan = std::move(*loan);
    } else if (const auto* end = std::get_if<feed::PartitionEnd>(&next)) {
      OnPartitionEnd(*end);
      if (!cross_partition && rows_.size() != 0) break;
    } else if (std::holds_alternative<feed::EndOfFeed>(next)) {
      ended_ = true;
    }  // What reads rows does not stop at the end of an epoch.
  }
  return rows_.TakeFront(std::min(count, rows_.size()));
}

void FeedReader::TakeFromChunk(std::size_t count) {
  if (!chunk_->decoder) chunk_->decoder = std::make_unique<RowDecoder>(chunk_->loan.bytes());
  const std::size_t taken = chunk_->decoder->Take(count, rows_);
  feed_->CountRows(taken);
  if (chunk_->loan.mode() == feed::Mode::kInference) {
    SessionOf(chunk_->loan).handed_out += taken;
  }
  if (chunk_->decoder->at_end()) chunk_.reset();
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
    const auto finished = server().FinishSession(session.id, session.answered);
    ThrowIfError(finished.status());
  }
}

void FeedReader::SendResults(nb::list results) {
  const OneCaller only(answering_, "send_results");
  const std::size_t total = nb::len(results);
  std::uint64_t unanswered = 0;
  for (const Session& session : sessions_) unanswered += session.handed_out - session.answered;
  if (total > unanswered) {
    std::string message = fmt::format("{} results for {} unanswered rows", total, unanswered);
    if (!sessions_.empty()) {
      const Session& last = sessions_.back();
      message += fmt::format(" (partition {}: {} rows were handed out, {} are answered)",
                             last.partition, last.handed_out, last.answered);
    }
    ThrowStatus(Status(ErrorKind::kBadInput, std::move(message)));
  }
  for (std::size_t sent = 0; sent < total;) {
    Session& session = sessions_.front();
    const std::size_t some =
        std::min<std::size_t>(total - sent, session.handed_out - session.answered);
    SendRange(session, results, sent, sent + some);
    sent += some;
    FinishAnsweredSessions();
  }
}

void FeedReader::SendRange(Session& session, const nb::list& results, std::size_t begin,
                           std::size_t end) {
  while (begin < end) {
    std::size_t next = end;
    if (!session.broken) {
      encoder_.Plan(results, begin, next);
      while (encoder_.bytes() > kResultChunkBytes && next - begin > 1) {
        next = begin + (next - begin) / 2;
        encoder_.Plan(results, begin, next);
      }
      std::optional<feed::AlignedBuffer> chunk;
      do {
        chunk.emplace(encoder_.bytes());
        if (chunk->size() != encoder_.bytes()) throw std::bad_alloc();
      } while (!encoder_.Fill(chunk->bytes()));
      const auto delivery = ValueOrThrow(WithoutGil([&] {
        return server().SendResult(session.id, next - begin, chunk->bytes(),
                                   {.deadline = Deadline::Infinite(), .check = &CheckSignals});
      }));
      session.broken = delivery == feed::Delivery::kDiscarded;
    }
    session.answered += next - begin;
    begin = next;
  }
}

void FeedReader::Finish() {
  if (server().terminated()) return;
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
