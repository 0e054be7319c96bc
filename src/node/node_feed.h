#ifndef TFOS_NODE_NODE_FEED_H_
#define TFOS_NODE_NODE_FEED_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/thread/mutex.h"
#include "feed/node/feed_server.h"
#include "feed/read/steps/step_desk.h"

namespace tfos::node {

/// A node's feed: its server, and what only this side of it knows.
///
/// Owner and lifetime: shared by the Python object, its readers and the link to the agent.
/// Threads: any.
class NodeFeed {
 public:
  explicit NodeFeed(std::unique_ptr<feed::FeedServer> server) : server_(std::move(server)) {}

  feed::FeedServer& server() { return *server_; }
  const feed::FeedServer& server() const { return *server_; }

  /// Synchronous training's, of all queues.
  feed::StepDesk& steps() { return steps_; }
  const feed::StepDesk& steps() const { return steps_; }

  /// What a reader calls now and then while it waits for rows, or for steps that all can make: this
  /// node may be waited for meanwhile. It may take long.
  void SetWhileWaiting(std::function<void()> what) {
    const MutexLock lock(mutex_);
    while_waiting_ = std::move(what);
  }
  void WhileWaiting() {
    std::function<void()> what;
    {
      const MutexLock lock(mutex_);
      what = while_waiting_;
    }
    if (what) what();
  }

  /// Rows that the program has taken. The server counts items, which may be batches.
  std::uint64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  void CountRows(std::uint64_t count) { rows_.fetch_add(count, std::memory_order_relaxed); }

  /// Rows that were in no batch: the remainder of an epoch.
  std::uint64_t dropped_rows() const { return dropped_rows_.load(std::memory_order_relaxed); }
  void CountDropped(std::uint64_t count) {
    dropped_rows_.fetch_add(count, std::memory_order_relaxed);
  }

  /// Rows of the remainder of epochs: passed on to other nodes, and taken over from them.
  std::uint64_t rows_passed_on() const { return rows_passed_on_.load(std::memory_order_relaxed); }
  std::uint64_t rows_taken_over() const { return rows_taken_over_.load(std::memory_order_relaxed); }
  void CountPassed(std::uint64_t on, std::uint64_t over) {
    rows_passed_on_.fetch_add(on, std::memory_order_relaxed);
    rows_taken_over_.fetch_add(over, std::memory_order_relaxed);
  }

  /// Batches of columns among them.
  std::uint64_t batches() const { return batches_.load(std::memory_order_relaxed); }
  void CountBatch(std::uint64_t rows) {
    CountRows(rows);
    batches_.fetch_add(1, std::memory_order_relaxed);
  }

  /// The program has asked for an epoch that was not fed.
  bool asked_for_more() const { return asked_for_more_.load(std::memory_order_relaxed); }
  void NoteAskedForMore() { asked_for_more_.store(true, std::memory_order_relaxed); }

 private:
  std::unique_ptr<feed::FeedServer> server_;
  feed::StepDesk steps_;
  Mutex mutex_;
  std::function<void()> while_waiting_ TFOS_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> rows_ = 0;
  std::atomic<std::uint64_t> dropped_rows_ = 0;
  std::atomic<std::uint64_t> rows_passed_on_ = 0;
  std::atomic<std::uint64_t> rows_taken_over_ = 0;
  std::atomic<std::uint64_t> batches_ = 0;
  std::atomic<bool> asked_for_more_ = false;
};

}  // namespace tfos::node

#endif  // TFOS_NODE_NODE_FEED_H_
