#ifndef TFOS_JVM_COLUMN_LAYOUT_H_
#define TFOS_JVM_COLUMN_LAYOUT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "arrow/export.h"
#include "tfos/status.h"

namespace tfos::jvm {

// How columns of Arrow cross between Java and C++. Spark's jars lack Arrow's C data interface for
// Java, so their types cross as JSON, once, and their values as numbers, with each batch.
//
// A type is {"name": "x", "format": "+l", "nullable": true, "children": [...]}, with Arrow's text
// of the C data interface as format. The numbers of values are, for the field itself and then for
// each child in the same way: length, nulls, how many buffers, and the address of each.
//
// Owner and lifetime: addresses don't tell the owner of the memory; the functions that take or give
// them do. Threads: any.

nlohmann::json TypeToJson(const arrow::Field& type);
/// Throws nlohmann::json::exception for another JSON, which Java has no reason to make.
arrow::Field TypeFromJson(const nlohmann::json& json);

std::vector<std::int64_t> NumbersOf(const arrow::Field& values);
/// `type` with values, whose memory is somebody else's. kBug for numbers of another type.
Result<arrow::Field> ValuesFrom(arrow::Field type, std::span<const std::int64_t> numbers);

}  // namespace tfos::jvm

#endif  // TFOS_JVM_COLUMN_LAYOUT_H_
