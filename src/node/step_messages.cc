#include "node/step_messages.h"

#include <cstdint>

namespace tfos::node {

control::StepReport MessageOf(const feed::StepReport& report) {
  return {.queue = report.queue,
          .epoch = static_cast<int>(report.epoch),
          .full_batches = static_cast<std::int64_t>(report.full_batches),
          .ended = report.ended,
          .batches = static_cast<std::int64_t>(report.batches),
          .rows = static_cast<std::int64_t>(report.rows),
          .passable_rows = static_cast<std::int64_t>(report.passable_rows),
          .batch_rows = static_cast<std::int64_t>(report.batch_rows),
          .made = static_cast<std::int64_t>(report.made),
          .waits = report.waits,
          .looked = report.looked};
}

feed::StepGrant GrantOf(const control::StepTickets& tickets) {
  feed::StepGrant grant{.queue = tickets.queue,
                        .epoch = static_cast<std::uint32_t>(tickets.epoch),
                        .granted = static_cast<std::uint64_t>(tickets.granted),
                        .final = tickets.final,
                        .longest = static_cast<std::uint64_t>(tickets.longest),
                        .ending = tickets.ending,
                        .passes = {},
                        .missing = tickets.missing,
                        .look = tickets.look};
  grant.passes.reserve(tickets.passes.size());
  for (const control::RowPass& pass : tickets.passes) {
    grant.passes.push_back({.from = static_cast<std::uint32_t>(pass.from),
                            .rows = static_cast<std::uint64_t>(pass.rows),
                            .to = {.unix_name = pass.feed.socket,
                                   .host = pass.address,
                                   .port = static_cast<std::uint16_t>(pass.feed.port),
                                   .node_id = static_cast<std::uint32_t>(pass.to)}});
  }
  return grant;
}

}  // namespace tfos::node
