#ifndef TFOS_BASE_CRYPTO_OPENSSL_H_
#define TFOS_BASE_CRYPTO_OPENSSL_H_

namespace tfos {

/// To be called before anything of OpenSSL, which is linked in and shares a process and a host with
/// others of its kind: it reads no configuration of the host, which may name modules of another
/// version, and does not undo itself at the process's end, while threads may still use it. Once is
/// enough. Threads: any.
void StartOpenSsl();

/// Which one is linked in, for people: "OpenSSL 3.0.17 1 Jul 2025". Its fixes come with another
/// build of tfos.
const char* OpenSslVersion();

}  // namespace tfos

#endif  // TFOS_BASE_CRYPTO_OPENSSL_H_
