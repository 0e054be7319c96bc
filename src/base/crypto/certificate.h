#ifndef TFOS_BASE_CRYPTO_CERTIFICATE_H_
#define TFOS_BASE_CRYPTO_CERTIFICATE_H_

#include <string>

#include "tfos/status.h"

namespace tfos {

/// What a server of TLS shows, and the private key that belongs to it, both as PEM. Nobody has
/// signed it: a client must have got it by another way, and take no other.
struct Certificate {
  std::string certificate;
  std::string private_key;  ///< Never shown or written to a file.
};

/// A new one, with a key on P-256. It is valid for longer than any cluster lives, and from a day
/// ago, as clocks differ. Threads: any. Errors: what OpenSSL lacks.
Result<Certificate> MakeCertificate();

}  // namespace tfos

#endif  // TFOS_BASE_CRYPTO_CERTIFICATE_H_
