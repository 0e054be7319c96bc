#ifndef TFOS_FEED_FEEDER_PARTITION_WRITER_FIXTURE_H_
#define TFOS_FEED_FEEDER_PARTITION_WRITER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/thread/mutex.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/partition_writer.h"
#include "feed/node/feed_server.h"

// A writer over real nodes, and a coordinator that says which of them have ended.

namespace tfos::feed {

// Far beyond what anything takes; only a hang reaches it.
inline constexpr auto kLong = std::chrono::seconds{60};
constexpr std::uint64_t kSmallRegion = 64 * 1024;

class PartitionWriterTest : public ::testing::Test {
 protected:
  void StartServers(std::uint32_t count, std::uint64_t regions,
                    const Clock* progress_clock = &Clock::Steady()) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Result<std::unique_ptr<FeedServer>> server =
          FeedServer::Start({.node_id = i,
                             .key = key_,
                             .cluster_id = "c1",
                             .bind_address = "127.0.0.1",
                             .progress_clock = progress_clock,
                             .memory_budget_bytes = regions * kSmallRegion,
                             .region_bytes = kSmallRegion});
      ASSERT_TRUE(server.ok()) << server.status().DebugString();
      servers_.push_back(std::move(*server));
    }
  }

  PartitionWriterOptions Options(std::uint32_t partition) const {
    PartitionWriterOptions options;
    options.key = key_;
    options.session.key.job = job_;
    options.session.key.partition = partition;
    options.ask_ended = [this](const InterruptCheck& /*check*/) { return ended(); };
    options.progress_timeout = kLong;
    for (const std::unique_ptr<FeedServer>& server : servers_) {
      options.endpoints.push_back(server->endpoint());
      options.endpoints.back().host = "127.0.0.1";
    }
    return options;
  }

  /// The node closes, and the coordinator says so.
  void End(std::uint32_t node) {
    servers_[node]->Close();
    Say(node);
  }
  void Say(std::uint32_t ended_node) {
    const MutexLock lock(mutex_);
    ended_.insert(ended_node);
  }
  Result<std::set<std::uint32_t>> ended() const {
    const MutexLock lock(mutex_);
    return ended_;
  }

  static Status Put(PartitionWriter& writer, std::string_view text, std::uint64_t first = 0,
                    std::uint64_t items = 1) {
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, writer.Reserve(text.size()));
    if (room.empty()) return {};
    std::memcpy(room.data(), text.data(), text.size());
    return writer.Commit(text.size(), {first, first + items});
  }

  /// The next chunk's text; empty at the end of the feed, or when none came within `patience`.
  static std::string Take(FeedServer& server, std::chrono::milliseconds patience = kLong) {
    const Result<Next> next = server.Next("input", {.deadline = Deadline::After(patience)});
    if (!next.ok() || !std::holds_alternative<ChunkLoan>(*next)) return "";
    const std::span<const std::byte> bytes = std::get<ChunkLoan>(*next).bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// Another feeder, which holds memory of the node and has sent nothing.
  std::unique_ptr<FeedClient> HolderAt(std::uint32_t node) const {
    const PartitionWriterOptions options = Options(1);
    Result<std::unique_ptr<FeedClient>> holder =
        FeedClient::Connect(options.endpoints[node], key_, {}, Deadline::After(kLong));
    if (!holder.ok() || !(*holder)->Open(options.session).ok()) return nullptr;
    return std::move(*holder);
  }

  /// A writer that fails, and does not hang, where it waits without end.
  static Status Interrupted(const Deadline& hang) {
    return hang.passed() ? Status(ErrorKind::kInterrupted, "it hangs") : Status::Ok();
  }

  /// Chunks come to the first node, as the others don't begin.
  void ExpectAllAtTheFirst(PartitionWriterOptions options) const {
    options.patience_with_beginners = std::chrono::milliseconds(300);
    options.check = [hang = Deadline::After(kLong / 2)] { return Interrupted(hang); };
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
    ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
    for (const char* const chunk : {"one", "two", "three"}) {
      const Status put = Put(**writer, chunk);
      ASSERT_TRUE(put.ok()) << put.DebugString();
      EXPECT_EQ(Take(*servers_[0]), chunk);
    }
  }

  /// Another one for each test: what has ended is remembered by job.
  static JobId NextJob() {
    static std::uint8_t jobs = 0;
    return {++jobs};
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  const JobId job_ = NextJob();
  std::vector<std::unique_ptr<FeedServer>> servers_;

 private:
  mutable Mutex mutex_;
  std::set<std::uint32_t> ended_ TFOS_GUARDED_BY(mutex_);  ///< What the coordinator says.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PARTITION_WRITER_FIXTURE_H_
