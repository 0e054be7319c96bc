#include "feed/feeder/pass_rows.h"

#include <chrono>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "base/time/deadline.h"
#include "feed/feeder/client/feed_client.h"

namespace tfos::feed {
namespace {

// The other node's listener answers by itself, whatever its program does.
constexpr std::chrono::seconds kPatience{60};

}  // namespace

Status PassRows(const Endpoint& to, const Secret& key, const std::string& queue,
                std::uint32_t epoch, std::span<const std::byte> chunk, const ItemRange& rows,
                const PassOptions& options) {
  // It took none, so its giver keeps them.
  const Status unwanted(ErrorKind::kReconnect, "its program wants no more rows");
  const auto pass = [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const std::unique_ptr<FeedClient> client,
                          FeedClient::Connect(to, key,
                                              {.progress_timeout = kPatience,
                                               .encryption = options.encryption,
                                               .number = options.from,
                                               .check = options.check},
                                              Deadline::After(kPatience)));
    TFOS_ASSIGN_OR_RETURN(const Opened opened,
                          client->Open({.mode = Mode::kPass,
                                        .queue = queue,
                                        .key = {.epoch = epoch, .partition = options.from},
                                        .attempt = options.number,
                                        .region_bytes = chunk.size()}));
    if (opened.feed_over) return unwanted;
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, client->Reserve(chunk.size()));
    if (room.empty()) return unwanted;
    std::memcpy(room.data(), chunk.data(), chunk.size());
    TFOS_RETURN_IF_ERROR(client->Commit(chunk.size(), rows));
    TFOS_ASSIGN_OR_RETURN(const Ended ended, client->Finish());
    return ended.stopped ? unwanted : Status::Ok();
  };
  return pass().Annotate(
      fmt::format("pass {} rows of epoch {} on to node {}", rows.items(), epoch, to.node_id));
}

}  // namespace tfos::feed
