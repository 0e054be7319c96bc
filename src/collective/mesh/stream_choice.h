#ifndef TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_
#define TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_

#include <memory>
#include <string_view>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
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

/// What goes over a socket over which both ends have just proved who they are: TLS when `options`
/// want that; else, when both have UCX, UCX beside it; else the bytes as they are. `key` is that of
/// the connection. `ucx` may be null.
///
/// Errors: as TLS and UCX, what the socket says, retry later at the deadline.
Result<std::unique_ptr<net::Stream>> ChooseStream(UniqueFd socket, bool connecting,
                                                  const Secret& key, const GroupOptions& options,
                                                  net::UcxWorker* ucx, const Wait& wait);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_STREAM_CHOICE_H_
