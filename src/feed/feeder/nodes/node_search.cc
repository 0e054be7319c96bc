#include "feed/feeder/nodes/node_search.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/thread/guarded.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"
#include "base/time/deadline.h"
#include "base/time/seconds_text.h"

namespace tfos::feed {
namespace {

/// More nodes than this are asked as earlier ones answer.
constexpr std::size_t kMostThreads = 64;

/// What ends the waits of a node's connection: during the search its deadline, or another node's
/// failure; afterwards the caller's check. A check belongs to the caller's thread.
class Patience {
 public:
  Patience(const Deadline& deadline, InterruptCheck check)
      : deadline_(deadline), check_(std::move(check)), caller_(std::this_thread::get_id()) {}

  Status Check() const {
    if (over_ || std::this_thread::get_id() == caller_) {
      if (check_) TFOS_RETURN_IF_ERROR(check_());
    }
    if (over_) return {};
    if (given_up_) return {ErrorKind::kInterrupted, "the search for the nodes was given up"};
    if (deadline_.passed()) return {ErrorKind::kRetryLater, "no answer"};
    return {};
  }

  void GiveUp() { given_up_ = true; }
  void End() { over_ = true; }
  const Deadline& deadline() const { return deadline_; }

 private:
  const Deadline deadline_;
  const InterruptCheck check_;
  const std::thread::id caller_;
  std::atomic<bool> given_up_ = false;
  std::atomic<bool> over_ = false;
};

class Search {
 public:
  Search(const PartitionWriterOptions& options, std::span<const Endpoint> endpoints)
      : options_(options),
        endpoints_(endpoints),
        patience_(
            std::make_shared<Patience>(Deadline::After(options.connect_timeout), options.check)),
        answers_(endpoints.size()) {}

  Result<FoundNodes> Run() {
    std::vector<std::thread> threads;
    const std::size_t wanted = std::min(endpoints_.size(), kMostThreads);
    // One node needs no other thread.
    while (wanted > 1 && threads.size() < wanted) {
      Result<std::thread> thread = StartThread("tfos-find-nodes", [this] { AskOneAfterAnother(); });
      if (!thread.ok()) break;  // The process may have no more: those that there are do it all.
      threads.push_back(std::move(*thread));
    }
    if (threads.empty()) AskOneAfterAnother();
    const Status waited = AwaitAnswers();
    if (!waited.ok()) patience_->GiveUp();
    for (std::thread& thread : threads) thread.join();
    patience_->End();
    TFOS_RETURN_IF_ERROR(waited);
    return Sum();
  }

 private:
  /// Until no node is left to ask.
  void AskOneAfterAnother() {
    for (;;) {
      std::size_t index = 0;
      {
        const MutexLock lock(mutex_);
        if (next_ == endpoints_.size()) return;
        index = next_++;
      }
      Result<FoundNode> answer = AskSafely(endpoints_[index]);
      const bool fatal = !answer.ok() && answer.status().kind() != ErrorKind::kReconnect &&
                         answer.status().kind() != ErrorKind::kRetryLater;
      const MutexLock lock(mutex_);
      if (fatal) {
        if (failure_.ok()) failure_ = answer.status();
        patience_->GiveUp();  // What others then say is not worth waiting for.
      }
      answers_[index].emplace(std::move(answer));
      ++answered_;
      changed_.NotifyAll();
    }
  }

  /// An answer comes of every question, or the caller would wait for ever.
  Result<FoundNode> AskSafely(const Endpoint& endpoint) const {
    std::optional<Result<FoundNode>> answer;
    const auto ask = [&] { answer.emplace(Ask(endpoint)); };
    const auto keep = [&](ErrorKind kind, const char* what) {
      const auto store = [&] { answer.emplace(Status(kind, what).Annotate("look for a node")); };
      Guarded(store, [&](ErrorKind, const char*) { answer.emplace(no_memory_); });
    };
    Guarded(ask, keep);
    return *std::move(answer);
  }

  Result<FoundNode> Ask(const Endpoint& endpoint) const {
    // The connection outlives the search.
    const auto check = [patience = patience_] { return patience->Check(); };
    TFOS_RETURN_IF_ERROR(check());
    FoundNode node{.endpoint = endpoint, .client = nullptr, .counted = {}};
    TFOS_ASSIGN_OR_RETURN(node.client,
                          FeedClient::Connect(endpoint, options_.key,
                                              {.progress_timeout = options_.progress_timeout,
                                               .encryption = options_.encryption,
                                               .number = options_.session.key.partition,
                                               .check = check},
                                              patience_->deadline()));
    TFOS_ASSIGN_OR_RETURN(node.counted,
                          node.client->Count(options_.session.key, options_.session.attempt));
    return node;
  }

  Status AwaitAnswers() {
    const MutexLock lock(mutex_);
    while (answered_ < endpoints_.size()) {
      TFOS_RETURN_IF_ERROR(changed_.WaitRound(mutex_, {.check = options_.check}, ""));
    }
    return {};
  }

  Result<FoundNodes> Sum() {
    const MutexLock lock(mutex_);
    TFOS_RETURN_IF_ERROR(failure_);
    FoundNodes found;
    std::string late;
    std::string gone;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      Result<FoundNode>& answer = *answers_[i];
      if (answer.ok()) {
        found.nodes.push_back(std::move(*answer));
        continue;
      }
      const bool is_late = answer.status().kind() == ErrorKind::kRetryLater;
      std::string& names = is_late ? late : gone;
      names += fmt::format("{}node {} on {} ({})", names.empty() ? "" : ", ", endpoints_[i].node_id,
                           endpoints_[i].host, answer.status().ToString());
    }
    if (!late.empty()) {
      return Status(ErrorKind::kRetryLater,
                    fmt::format("feed partition {}: not reached within {}: {}",
                                options_.session.key.partition,
                                SecondsText(Clock::Steady().Now() - began_), late));
    }
    if (!gone.empty()) found.unreachable = Status(ErrorKind::kReconnect, std::move(gone));
    return found;
  }

  const PartitionWriterOptions& options_;
  const std::span<const Endpoint> endpoints_;
  const std::shared_ptr<Patience> patience_;
  const Clock::TimePoint began_ = Clock::Steady().Now();
  /// Made beforehand: later there may be no memory for it.
  const Status no_memory_{ErrorKind::kNoResources, "no memory to look for a node"};

  Mutex mutex_;
  CondVar changed_;
  std::size_t next_ TFOS_GUARDED_BY(mutex_) = 0;
  std::size_t answered_ TFOS_GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<Result<FoundNode>>> answers_ TFOS_GUARDED_BY(mutex_);
  Status failure_ TFOS_GUARDED_BY(mutex_);  ///< The first that ends the search.
};

}  // namespace

Result<FoundNodes> AskNodes(const PartitionWriterOptions& options,
                            std::span<const Endpoint> endpoints) {
  return Search(options, endpoints).Run();
}

}  // namespace tfos::feed
