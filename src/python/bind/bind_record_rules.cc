#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string>

#include "python/bind/bindings.h"
#include "python/objects/errors.h"
#include "records/schema/record_options.h"
#include "records/schema/spark_columns.h"

namespace tfos::python {

void BindRecordRules(nb::module_& module) {
  module.def(
      "record_type_named",
      [](const std::string& name) {
        return records::RecordTypeName(FileValueOrThrow(records::RecordTypeNamed(name)));
      },
      nb::arg("name"), "The record type that an option names, whatever its case.");
  module.def(
      "compression_named",
      [](const std::string& option) {
        return records::CompressionName(FileValueOrThrow(records::CompressionNamed(option)));
      },
      nb::arg("option"), "\"\", \"GZIP\" or \"ZLIB\": what an option names.");
  module.def(
      "compression_of_path",
      [](const std::string& path) {
        return records::CompressionName(records::CompressionOfPath(path));
      },
      nb::arg("path"), "The same by the end of a file's name.");
  module.def(
      "compression_suffix",
      [](const std::string& compression) {
        return records::SuffixOf(FileValueOrThrow(records::CompressionFrom(compression)));
      },
      nb::arg("compression"), "What the name of a file so compressed ends with.");
  module.def(
      "check_record_columns",
      [](const std::string& schema, const std::string& record_type, bool written) {
        const auto type = FileValueOrThrow(records::RecordTypeNamed(record_type));
        const auto use = written ? records::ColumnUse::kWritten : records::ColumnUse::kRead;
        ThrowIfFileError(records::CheckSparkColumns(schema, type, use));
      },
      nb::arg("schema"), nb::arg("record_type"), nb::arg("written"),
      "Whether such records can hold the columns of a schema of Spark SQL, given as its JSON.");
}

}  // namespace tfos::python
