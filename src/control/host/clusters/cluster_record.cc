#include "control/host/clusters/cluster_record.h"

#include <limits>

#include "base/text/json_fields.h"
#include "control/messages/parts/bootstrap_parts_json.h"
#include "net/handshake/protocol.h"

namespace tfos::control {

template <typename F, DescribedAs<ClusterRecord> M>
void Describe(F& f, M& m) {
  constexpr JsonRange kCount = {0, std::numeric_limits<std::int64_t>::max()};
  f.Required("cluster_id", m.cluster_id);
  f.Required("name", m.name);
  f.Required("address", m.endpoint.address);
  f.Required("port", m.endpoint.port, JsonRange{1, 65535});
  f.Required("encrypt", m.encrypt);
  f.Required("key", m.key);
  f.Required("driver_pid", m.driver_pid, kCount);
  f.Required("started_ms", m.started_ms, kCount);
}

Result<ClusterRecord> ClusterRecord::Parse(std::string_view text) {
  TFOS_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kMostBytes, "the cluster's record"));
  ClusterRecord record;
  JsonReader reader(json);
  Describe(reader, record);
  if (!reader.error().empty()) {
    return Status(ErrorKind::kBadInput, "the cluster's record: " + reader.error());
  }
  TFOS_RETURN_IF_ERROR(net::EncryptionFromWord(record.encrypt).status());
  return record;
}

std::string ClusterRecord::Serialize() const {
  return WriteJsonLine(JsonValue<ClusterRecord>::Write(*this));
}

}  // namespace tfos::control
