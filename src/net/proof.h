#ifndef TFOS_NET_PROOF_H_
#define TFOS_NET_PROOF_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"
#include "tfos/status.h"

// How the two ends of a connection prove to each other that they know the cluster's token: each
// chooses a nonce, and a proof covers both. Threads: any.

namespace tfos::net {

/// Random bytes that one end chooses for one connection.
using Nonce = std::array<std::uint8_t, 32>;

Result<Nonce> RandomNonce();

/// What a proof of the token is about: it binds the token to `label`, which names the protocol and
/// the end, and to this connection.
std::string ProofText(std::string_view label, const Nonce& first, const Nonce& second);

/// Whether a proof is the one expected; takes as long whatever they are.
bool SameProof(const Digest& expected, const Digest& given);

}  // namespace tfos::net

#endif  // TFOS_NET_PROOF_H_
