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
      "record_mode_named",
      [](const std::string& option) { return FileValueOrThrow(records::ModeNamed(option)); },
      nb::arg("option"), "How bad records are handled, as an option names it, whatever its case.");
  module.def(
      "record_flag",
      [](const std::string& name, const std::string& value) {
        return FileValueOrThrow(records::FlagOf(name, value));
      },
      nb::arg("name"), nb::arg("value"), "The value of an option that is true or false.");
  module.def(
      "record_count",
      [](const std::string& name, const std::string& value) {
        return FileValueOrThrow(records::CountOf(name, value));
      },
      nb::arg("name"), nb::arg("value"), "The value of an option that is a positive number.");
  module.def(
      "compression_level",
      [](const std::string& value) { return FileValueOrThrow(records::CompressionLevelOf(value)); },
      nb::arg("value"), "The value of the option compressionLevel, 0 to 9.");
  module.def(
      "check_record_index",
      [](bool index, const std::string& compression) {
        const auto kind = FileValueOrThrow(records::CompressionFrom(compression));
        ThrowIfFileError(records::CheckIndex(index, kind));
      },
      nb::arg("index"), nb::arg("compression"),
      "Whether files so compressed can have an index, if they are to have one.");
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
