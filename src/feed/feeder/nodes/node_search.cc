#include "feed/feeder/nodes/node_search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
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
/// How long nodes may take to answer before the coordinator is asked whether they have ended; twice
/// as long before each further question.
constexpr std::chrono::seconds kFirstQuestion{1};

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
  Search(const PartitionWriterOptions& options, std::span<const Endpoint> endpoints,
         NodeFates& fates, FeedClient::Ask what, const Deadline& deadline)
      : options_(options),
        endpoints_(endpoints),
        fates_(fates),
        what_(what),
        ended_(std::make_shared<std::vector<std::atomic<bool>>>(endpoints.size())),
        patience_(std::make_shared<Patience>(Deadline::After(options.connect_timeout).Min(deadline),
                                             options.check)),
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
      Result<FoundNode> answer = AskSafely(index);
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
  Result<FoundNode> AskSafely(std::size_t index) const {
    std::optional<Result<FoundNode>> answer;
    const auto ask = [&] { answer.emplace(Ask(index)); };
    const auto keep = [&](ErrorKind kind, const char* what) {
      const auto store = [&] { answer.emplace(Status(kind, what).Annotate("look for a node")); };
      Guarded(store, [&](ErrorKind, const char*) { answer.emplace(no_memory_); });
    };
    Guarded(ask, keep);
    return *std::move(answer);
  }

  Result<FoundNode> Ask(std::size_t index) const {
    const Endpoint& endpoint = endpoints_[index];
    // The connection outlives the search.
    const auto check = [patience = patience_, ended = ended_, index]() -> Status {
      if ((*ended)[index]) return {ErrorKind::kReconnect, "it has ended, the coordinator says"};
      return patience->Check();
    };
    TFOS_RETURN_IF_ERROR(check());
    FoundNode node{.endpoint = endpoint, .client = nullptr, .counted = {}};
    TFOS_ASSIGN_OR_RETURN(node.client,
                          FeedClient::Connect(endpoint, options_.key,
                                              {.progress_timeout = options_.progress_timeout,
                                               .encryption = options_.encryption,
                                               .number = options_.session.key.partition,
                                               .check = check},
                                              patience_->deadline()));
    TFOS_ASSIGN_OR_RETURN(
        node.counted, node.client->Count(options_.session.key, options_.session.attempt, what_));
    return node;
  }

  Status AwaitAnswers() {
    std::chrono::seconds interval = kFirstQuestion;
    Deadline question = Deadline::After(interval);
    for (;;) {
      {
        const MutexLock lock(mutex_);
        if (answered_ == endpoints_.size()) return {};
        TFOS_RETURN_IF_ERROR(changed_.WaitRound(mutex_, {.check = options_.check}, ""));
        if (answered_ == endpoints_.size()) return {};
      }
      if (!question.passed()) continue;
      // Nothing answers for a host that is gone, and the kernel would try it for a minute.
      TFOS_RETURN_IF_ERROR(fates_.Ask());
      for (std::size_t i = 0; i < endpoints_.size(); ++i) {
        if (fates_.HasEnded(endpoints_[i].node_id)) (*ended_)[i] = true;
      }
      interval *= 2;
      question = Deadline::After(interval);
    }
  }

  Result<FoundNodes> Sum() {
    const MutexLock lock(mutex_);
    TFOS_RETURN_IF_ERROR(failure_);
    FoundNodes found;
    std::string late;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      Result<FoundNode>& answer = *answers_[i];
      if (answer.ok()) {
        found.nodes.push_back(std::move(*answer));
        continue;
      }
      if (answer.status().kind() != ErrorKind::kRetryLater) {
        found.missed.push_back({.endpoint = endpoints_[i], .cause = answer.status()});
        continue;
      }
      late += fmt::format("{}node {} on {} ({})", late.empty() ? "" : ", ", endpoints_[i].node_id,
                          endpoints_[i].host, answer.status().ToString());
    }
    if (!late.empty()) {
      found.late = {ErrorKind::kRetryLater,
                    fmt::format("feed partition {}: not reached within {}: {}",
                                options_.session.key.partition,
                                SecondsText(Clock::Steady().Now() - began_), late)};
    }
    return found;
  }

  const PartitionWriterOptions& options_;
  const std::span<const Endpoint> endpoints_;
  NodeFates& fates_;
  const FeedClient::Ask what_;
  /// By node; connections look there for as long as they live.
  const std::shared_ptr<std::vector<std::atomic<bool>>> ended_;
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
                            std::span<const Endpoint> endpoints, NodeFates& fates,
                            FeedClient::Ask what, const Deadline& deadline) {
  return Search(options, endpoints, fates, what, deadline).Run();
}

Result<FoundNodes> FindNodes(const PartitionWriterOptions& options, NodeFates& fates) {
  FoundNodes found;
  std::vector<Endpoint> left;
  for (const Endpoint& endpoint : options.endpoints) {
    if (fates.HasEnded(endpoint.node_id)) {
      found.missed.push_back(
          {.endpoint = endpoint,
           .cause = {ErrorKind::kReconnect, "it has ended, the coordinator says"}});
    } else {
      left.push_back(endpoint);
    }
  }
  const Deadline deadline = fates.Patience();
  for (int round = 0; !left.empty(); ++round) {
    TFOS_ASSIGN_OR_RETURN(FoundNodes now, AskNodes(options, left, fates, FeedClient::Ask::kChunks));
    TFOS_RETURN_IF_ERROR(now.late);
    std::ranges::move(now.nodes, std::back_inserter(found.nodes));
    if (now.missed.empty()) break;
    TFOS_RETURN_IF_ERROR(fates.Ask());
    left.clear();
    for (MissedNode& missed : now.missed) {
      if (fates.HasEnded(missed.endpoint.node_id)) {
        found.missed.push_back(std::move(missed));
      } else if (deadline.passed() || !options.ask_ended) {
        return fates.CannotReach(missed.endpoint, missed.cause);
      } else {
        left.push_back(std::move(missed.endpoint));
      }
    }
    if (!left.empty()) TFOS_RETURN_IF_ERROR(fates.Pause(round, deadline));
  }
  // Some may have been found later than others.
  const auto place = [&](const FoundNode& node) {
    return std::ranges::find(options.endpoints, node.endpoint.node_id, &Endpoint::node_id);
  };
  std::ranges::sort(found.nodes, {}, place);
  return found;
}

}  // namespace tfos::feed
