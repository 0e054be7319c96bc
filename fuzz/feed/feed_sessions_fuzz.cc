// What feeders say after they were let in, against the sessions of a node: the input is a script of
// what three of them say, in frames, and of what the node's program does meanwhile. Whatever they
// say, every chunk lies within its region, and once all have gone nothing of them is left.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "feed/node/session/feed_sessions.h"
#include "feed/wire/frame_reader.h"
#include "quiet.h"

namespace {

using namespace tfos;        // NOLINT(google-build-using-namespace)
using namespace tfos::feed;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kRegionBytes = 8192;
/// Larger regions fail, as they would on a host that has not the memory.
constexpr std::uint64_t kMostRegionBytes = 1 << 20;
constexpr std::size_t kFeeders = 3;

volatile std::uint8_t sink;

Result<std::unique_ptr<Region>> SmallRegion(std::uint64_t bytes) {
  if (bytes > kMostRegionBytes) return Status(ErrorKind::kNoResources, "no memory");
  return Region::Create(bytes);
}

/// As the listener has it.
struct Feeder {
  FeederLink link;
  FrameReader reader;
  bool refused = false;
};

class Node {
 public:
  Node() {
    sessions_ = FeedSessions::Create({.queues = {"input", "rows"},
                                      .memory_budget_bytes = 4 * kRegionBytes,
                                      .region_bytes = kRegionBytes,
                                      .cache_memory_bytes = kRegionBytes},
                                     &SmallRegion)
                    .value();
    for (std::size_t i = 0; i < kFeeders; ++i) Come(i);
  }

  /// Everybody goes, and the program gives back what it holds.
  ~Node() {
    for (auto& feeder : feeders_) sessions_->Gone(feeder->link, "the end");
    loans_.clear();
    sessions_->Terminate();
    const FeedCounters counters = sessions_->counters();
    if (counters.open_sessions != 0 || counters.queued_chunks != 0 ||
        counters.region_bytes_in_use != 0) {
      std::abort();
    }
    sessions_->Close();
  }

  /// A new connection in place of one.
  void Come(std::size_t index) {
    if (feeders_[index] != nullptr) sessions_->Gone(feeders_[index]->link, "another one comes");
    feeders_[index] = std::make_unique<Feeder>();
    feeders_[index]->link.id = next_link_++;
    feeders_[index]->link.local = index != 0;
    feeders_[index]->reader.set_limits({.data = index == 0 ? kDataLimit : 0, .result = 0});
  }

  void Say(std::size_t index, std::span<const std::byte> bytes) {
    Feeder& feeder = *feeders_[index];
    while (!bytes.empty() && !feeder.refused) {
      if (sessions_->Draining(feeder.link)) return;
      const std::span<std::byte> space = feeder.reader.Space();
      const std::size_t count = std::min(space.size(), bytes.size());
      std::copy_n(bytes.begin(), count, space.begin());
      feeder.reader.Filled(count);
      bytes = bytes.subspan(count);
      const Status heard = Hear(feeder);
      if (heard.ok() || sessions_->Draining(feeder.link)) continue;
      feeder.refused = true;
      sessions_->Refuse(feeder.link, heard);
    }
  }

  /// What was to be said to a feeder is out.
  void Flush(std::size_t index) {
    Feeder& feeder = *feeders_[index];
    std::uint64_t results = 0;
    for (const OutFrame& frame : sessions_->TakePosted(feeder.link)) results += frame.result.size();
    sessions_->Sent(feeder.link, results);
  }

  void TakeNext(bool passed) {
    const Wait now{.deadline = Deadline::After(std::chrono::seconds(0))};
    if (passed) {
      if (Result<ChunkLoan> loan = sessions_->NextPassed("input", 0, now); loan.ok()) {
        Keep(std::move(*loan));
      }
      return;
    }
    Result<Next> next = sessions_->Next("input", now);
    if (!next.ok()) return;
    if (auto* loan = std::get_if<ChunkLoan>(&*next)) Keep(std::move(*loan));
    if (const auto* end = std::get_if<PartitionEnd>(&*next)) answered_ = end->session;
  }

  void Answer(std::uint8_t rows) {
    AlignedBuffer result(16);
    (void)sessions_
        ->SendResult(answered_, rows, std::move(result),
                     {.deadline = Deadline::After(std::chrono::seconds(0))})
        .ok();
    if (rows % 4 == 0) (void)sessions_->FinishSession(answered_, rows).ok();
  }

  void GiveBack(bool newest) {
    if (loans_.empty()) return;
    loans_.front().MarkRead(1);
    if (newest) {
      loans_.pop_back();
    } else {
      loans_.pop_front();
    }
  }

  FeedSessions& sessions() { return *sessions_; }

 private:
  Status Hear(Feeder& feeder) {
    while (true) {
      TFOS_ASSIGN_OR_RETURN(const FrameReader::Event event, feeder.reader.Next());
      const MessageType type = feeder.reader.type();
      switch (event) {
        case FrameReader::Event::kNone:
          return {};
        case FrameReader::Event::kMessage:
          TFOS_RETURN_IF_ERROR(sessions_->OnMessage(feeder.link, type, feeder.reader.body()));
          break;
        case FrameReader::Event::kPayloadBegin: {
          if (type == MessageType::kError) {
            text_.resize(feeder.reader.payload_bytes());
            feeder.reader.SetTarget(text_);
            break;
          }
          if (type != MessageType::kData) return {ErrorKind::kBadInput, "not of a feeder"};
          TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> target,
                                sessions_->OnDataBegin(feeder.link, feeder.reader.body(),
                                                       feeder.reader.payload_bytes()));
          if (target.size() != feeder.reader.payload_bytes()) std::abort();
          feeder.reader.SetTarget(target);
          break;
        }
        case FrameReader::Event::kPayloadEnd:
          if (type == MessageType::kError) return {ErrorKind::kReconnect, "its last word"};
          TFOS_RETURN_IF_ERROR(sessions_->OnDataEnd(feeder.link));
      }
    }
  }

  void Keep(ChunkLoan loan) {
    answered_ = loan.session();
    // All of it can be read.
    for (const std::byte byte : loan.bytes()) sink = static_cast<std::uint8_t>(byte);
    loans_.push_back(std::move(loan));
  }

  std::shared_ptr<FeedSessions> sessions_;
  std::array<std::unique_ptr<Feeder>, kFeeders> feeders_;
  std::uint64_t next_link_ = 1;
  std::uint64_t answered_ = 0;
  std::deque<ChunkLoan> loans_;
  std::vector<std::byte> text_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("OFF");
  Node node;
  std::span<const std::byte> script = std::as_bytes(std::span(data, size));
  // Each step is a byte that says what, and one more that says of whom or how much.
  while (script.size() >= 2) {
    const auto what = static_cast<std::uint8_t>(script[0]);
    const auto detail = static_cast<std::uint8_t>(script[1]);
    script = script.subspan(2);
    switch (what % 10) {
      case 0:
      case 1:
      case 2: {
        const std::size_t count = std::min<std::size_t>(script.size(), detail);
        node.Say(what % 10, script.first(count));
        script = script.subspan(count);
        break;
      }
      case 3:
        node.TakeNext(detail % 2 == 1);
        break;
      case 4:
        node.GiveBack(detail % 2 == 1);
        break;
      case 5:
        node.Answer(detail);
        break;
      case 6:
        node.Come(detail % kFeeders);
        break;
      case 7:
        node.Flush(detail % kFeeders);
        break;
      case 8:
        node.sessions().EndEpoch("input", detail);
        break;
      default:
        if (detail == 0) node.sessions().EndFeed();
        if (detail == 1) node.sessions().Fail("the program failed");
        if (detail == 2) node.sessions().Terminate();
        if (detail == 3) node.sessions().EndJob({});
        if (detail > 3) node.sessions().AbandonEpoch("input", detail, {});
    }
  }
  return 0;
}
