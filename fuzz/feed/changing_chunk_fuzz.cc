// A chunk in shared memory that its feeder changes while the node reads it. The first byte is where
// the changes begin; the rest is the chunk. The node opens it as datasets do, and puts batches
// together: nothing but errors and odd values may come of it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "changer.h"
#include "chunk/row_structure.h"
#include "columns/batch_columns.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "feed/read/chunk_opener.h"

namespace {

using namespace tfos;        // NOLINT(google-build-using-namespace)
using namespace tfos::feed;  // NOLINT(google-build-using-namespace)

constexpr std::chrono::minutes kLong{1};
constexpr std::uint64_t kMostRows = 1000;
/// The chunk is read so often, each time under other changes.
constexpr int kRounds = 4;

volatile std::uint8_t sink;

void Touch(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) sink = static_cast<std::uint8_t>(byte);
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

void ReadBatch(ChunkOpener& opener, const RowChunk& chunk) {
  if (chunk.rows > kMostRows) return;
  for (const RowChunk::Column& column : chunk.columns) {
    // Values without bytes may be so many that they fill the memory.
    if (column.view.value_elements > kMostRows) continue;
    const columns::BatchColumnType type = columns::BatchTypeOf(column.name, column.view);
    for (const bool lend : {true, false}) {
      const columns::ColumnPart part{.column = &column.view,
                                     .first = 0,
                                     .count = chunk.rows,
                                     .memory = lend && chunk.lendable ? chunk.memory : nullptr};
      const Result<columns::BatchColumn> batch =
          columns::GatherColumn(opener.pool(), std::span(&part, 1), type.encoding);
      if (!batch.ok()) continue;
      Touch(batch->data.bytes);
      Touch(batch->boundaries.bytes);
      for (const std::string_view text : batch->strings) Touch(std::as_bytes(std::span(text)));
    }
  }
  if (const auto copy = chunk.Copy(opener.pool(), 0, chunk.rows); copy.ok()) (void)*copy;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > (1 << 20)) return 0;
  static const Secret key = Must(Secret::Generate());
  static const auto server = Must(FeedServer::Start({.key = key, .bind_address = ""}));
  static std::uint32_t partition = 0;
  const auto client =
      Must(FeedClient::Connect(server->endpoint(), key, {}, Deadline::After(kLong)));
  Must(client->Open({.key = {.partition = partition++}}));
  ChunkOpener opener(
      [](std::span<const std::byte>) -> Result<AlignedBuffer> {
        return Status(ErrorKind::kBadInput, "there is no Python here");
      },
      true);
  for (int round = 0; round < kRounds; ++round) {
    const std::span<std::byte> room = Must(client->Reserve(size - 1));
    std::memcpy(room.data(), data + 1, size - 1);
    const Changer changer(room, static_cast<std::uint8_t>(data[0] + 61 * round));
    const auto item = static_cast<std::uint64_t>(round);
    if (!client->Commit(room.size(), {item, item + 1}).ok()) std::abort();
    Next next = Must(server->Next("input", {.deadline = Deadline::After(kLong)}));
    auto& loan = std::get<ChunkLoan>(next);
    if (const auto opened = opener.Open(loan); opened.ok()) ReadBatch(opener, *opened->chunk);
  }
  Must(client->Finish());
  return 0;
}
