#ifndef TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_JSON_H_

#include <string>

#include "base/text/json_fields.h"
#include "control/messages/parts/bootstrap_parts.h"

// The parts of bootstrap_parts.h as JSON. Only for the sources of messages and of records with
// keys.
namespace tfos {

template <>
struct JsonValue<Secret> {
  static std::string Read(const Json& json, Secret& value, JsonRange) {
    if (json.is_string()) {
      if (auto secret = Secret::FromHex(json.get_ref<const std::string&>()); secret.ok()) {
        value = *secret;
        return {};
      }
    }
    return "must be 64 hexadecimal digits";
  }
  static Json Write(const Secret& secret) { return secret.ToHex(); }
};

template <>
struct JsonValue<control::RawJson> {
  static std::string Read(const Json& json, control::RawJson& value, JsonRange) {
    if (!json.is_object()) return "must be an object";
    value.text = json.dump();
    return {};
  }
  static Json Write(const control::RawJson& raw) { return Json::parse(raw.text, nullptr, false); }
};

}  // namespace tfos

#endif  // TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_JSON_H_
