#ifndef TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_
#define TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_

#include <memory>
#include <string_view>

#include "base/time/wait.h"
#include "collective/mesh/member.h"
#include "net/stream.h"
#include "net/ucx/ucx_worker.h"
#include "tfos/status.h"

// How bytes travel between two members: docs/formats/tensor-protocol.md.

namespace tfos::collective {

/// The setting `spark.tfos.rdma`: false, true or required.
Result<Rdma> RdmaFromWord(std::string_view word);

/// What a member of this process would use: for those who ask (net/ucx/ucx_worker.h).
using net::FindUcx;
using net::FoundUcx;

/// What this member has for UCX; null when it does not want it or can't. Errors: unsupported when
/// it insists and can't.
Result<std::unique_ptr<net::UcxWorker>> StartUcx(const GroupOptions& options);

/// How frames go between two members that have just shaken hands over `stream`: UCX beside it when
/// both have that, else it. `ucx` is null for a member that does not want it.
///
/// Errors: bad input for a malformed offer, what the stream says, retry later at the deadline.
Result<std::unique_ptr<net::Stream>> ChooseStream(std::unique_ptr<net::Stream> stream,
                                                  net::UcxWorker* ucx, const Wait& wait);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_
