#include "base/crypto/certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "base/crypto/openssl.h"

namespace tfos {
namespace {

constexpr long kDay = 24L * 3600;
constexpr long kYears = 20L * 365 * kDay;
constexpr unsigned char kName[] = "tfos";

struct Free {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(BIO* bio) const { ::BIO_free(bio); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Status Failed() { return {ErrorKind::kUnsupported, "OpenSSL can't make a certificate"}; }

/// What `write` writes.
template <typename Write>
Result<std::string> Pem(const Write& write) {
  const Owned<BIO> bio(::BIO_new(::BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return Failed();
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

/// Version 3, by and for one name.
bool Fill(X509* certificate, EVP_PKEY* key) {
  X509_NAME* const name = ::X509_get_subject_name(certificate);
  return ::X509_set_version(certificate, 2) == 1 &&
         ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), 1) == 1 &&
         ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -kDay) != nullptr &&
         ::X509_gmtime_adj(::X509_getm_notAfter(certificate), kYears) != nullptr &&
         ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, kName, -1, -1, 0) == 1 &&
         ::X509_set_issuer_name(certificate, name) == 1 &&
         ::X509_set_pubkey(certificate, key) == 1 &&
         ::X509_sign(certificate, key, ::EVP_sha256()) > 0;
}

}  // namespace

Result<Certificate> MakeCertificate() {
  StartOpenSsl();
  const Owned<EVP_PKEY> key(::EVP_EC_gen("P-256"));
  const Owned<X509> certificate(::X509_new());
  if (key == nullptr || certificate == nullptr || !Fill(certificate.get(), key.get())) {
    return Failed();
  }
  Certificate made;
  TFOS_ASSIGN_OR_RETURN(made.certificate, Pem([&](BIO* bio) {
                          return ::PEM_write_bio_X509(bio, certificate.get());
                        }));
  TFOS_ASSIGN_OR_RETURN(made.private_key, Pem([&](BIO* bio) {
                          return ::PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0,
                                                            nullptr, nullptr);
                        }));
  return made;
}

}  // namespace tfos
