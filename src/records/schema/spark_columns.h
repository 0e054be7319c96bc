#ifndef TFOS_RECORDS_SCHEMA_SPARK_COLUMNS_H_
#define TFOS_RECORDS_SCHEMA_SPARK_COLUMNS_H_

#include <string_view>

#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

enum class ColumnUse { kRead, kWritten };

/// Whether such records can hold the columns of a schema of Spark SQL, given as the JSON that
/// Spark's `StructType.json` makes. The table of types is in docs/tfrecords.md. Threads: any.
///
/// Errors: kBadInput, which names each column that they can't hold, with its type as Spark writes
/// it and what to do about it.
Status CheckSparkColumns(std::string_view schema, RecordType type, ColumnUse use);

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_SPARK_COLUMNS_H_
