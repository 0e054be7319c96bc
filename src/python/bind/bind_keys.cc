#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "base/crypto/certificate.h"
#include "base/crypto/purpose.h"
#include "base/crypto/secret.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

std::string KeyForPurpose(const std::string& token, const std::string& purpose) {
  const Secret secret = ValueOrThrow(Secret::FromHex(token), Domain::kCluster);
  return KeyFor(secret, ValueOrThrow(PurposeFromName(purpose), Domain::kCluster)).ToHex();
}

std::pair<std::string, std::string> NewCertificate() {
  Certificate made = ValueOrThrow(MakeCertificate(), Domain::kCluster);
  return {std::move(made.certificate), std::move(made.private_key)};
}

}  // namespace

void BindKeys(nb::module_& module) {
  module.def("key_for", &KeyForPurpose, nb::arg("token"), nb::arg("purpose"),
             "The key of a cluster for a purpose (docs/formats/handshake.md), both as hexadecimal "
             "digits.");
  module.def("new_certificate", &NewCertificate,
             "A certificate that nobody has signed, and its private key, as PEM.");
}

}  // namespace tfos::python
