#include "base/crypto/openssl.h"

#include <openssl/crypto.h>

namespace tfos {

void StartOpenSsl() {
  // Without memory for it, what is called next says so.
  static_cast<void>(
      ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr));
}

const char* OpenSslVersion() { return ::OpenSSL_version(OPENSSL_VERSION); }

}  // namespace tfos
