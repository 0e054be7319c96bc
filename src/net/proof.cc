#include "net/proof.h"

#include <algorithm>

#include "base/memory/bytes.h"

namespace tfos::net {

Result<Nonce> RandomNonce() {
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  Nonce nonce;
  static_assert(Secret::kBytes == sizeof(nonce));
  std::copy(random.bytes().begin(), random.bytes().end(), nonce.begin());
  return nonce;
}

std::string ProofText(std::string_view label, const Nonce& first, const Nonce& second) {
  std::string text(label);
  AppendBytes(first, text);
  AppendBytes(second, text);
  return text;
}

bool SameProof(const Digest& expected, const Digest& given) {
  const auto text = [](const Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  return ConstantTimeEqual(text(expected), text(given));
}

}  // namespace tfos::net
