#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "files/process_hadoop.h"
#include "hadoop/files/file_system.h"
#include "hadoop/plugin/served_file_system.h"
#include "python/bind/bindings.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"
#include "python/objects/numpy_types.h"

namespace tfos::python {
namespace {

using hadoop::FileInfo;
using hadoop::ReadableFile;
using hadoop::WritableFile;

/// Hadoop's client of this process, which is there only once: what Python holds of it is a name.
class HadoopClient {
 public:
  explicit HadoopClient(std::string spark_home) { files::SetSparkHome(std::move(spark_home)); }
};

/// The process's file system as C sees it. Never destroyed: threads of TensorFlow may use it while
/// the process ends.
const tfos_file_system& ProcessTable() {
  static const auto* const table = new tfos_file_system(hadoop::TableOf(files::ProcessHadoop()));
  return *table;
}

/// Calls a method of the process's file system without the GIL; its value, or OSError.
template <typename... Parameters, typename... Arguments>
auto Ask(auto (hadoop::FileSystem::*method)(Parameters...), const Arguments&... arguments) {
  auto result = WithoutGil([&] { return (files::ProcessHadoop().*method)(arguments...); });
  if constexpr (std::is_same_v<decltype(result), Status>) {
    ThrowIfFileError(result);
  } else {
    return FileValueOrThrow(std::move(result));
  }
}

using InfoTuple = std::tuple<bool, std::uint64_t, std::int64_t>;

InfoTuple TupleOf(const FileInfo& info) {
  return {info.is_directory, info.bytes, info.modified_ns};
}

std::vector<std::pair<std::string, InfoTuple>> List(const HadoopClient&, const std::string& path) {
  std::vector<std::pair<std::string, InfoTuple>> found;
  for (const hadoop::DirectoryEntry& entry : Ask(&hadoop::FileSystem::List, path)) {
    found.emplace_back(entry.name, TupleOf(entry.info));
  }
  return found;
}

std::size_t ReadInto(ReadableFile& file, std::uint64_t offset, nb::handle buffer) {
  const BufferView room(buffer, PyBUF_WRITABLE);
  if (!room.acquired()) throw nb::python_error();
  return FileValueOrThrow(WithoutGil([&] { return file.Read(offset, room.bytes()); }));
}

std::size_t WriteFrom(WritableFile& file, nb::handle buffer) {
  const BufferView bytes(buffer, PyBUF_SIMPLE);
  if (!bytes.acquired()) throw nb::python_error();
  ThrowIfFileError(WithoutGil([&] { return file.Append(bytes.bytes()); }));
  return bytes.bytes().size();
}

}  // namespace

void BindFiles(nb::module_& module) {
  nb::class_<ReadableFile>(module, "HadoopReader", "A file of Hadoop's that is read.")
      .def("read_into", &ReadInto, nb::arg("offset"), nb::arg("buffer"),
           "Fills a buffer from `offset`; how many bytes, fewer only where the file ends.");
  nb::class_<WritableFile>(module, "HadoopWriter", "A file of Hadoop's that is written.")
      .def("write", &WriteFrom, nb::arg("buffer"), "Appends all of it; how many bytes.")
      .def(
          "close",
          [](WritableFile& file) { ThrowIfFileError(WithoutGil([&] { return file.Close(); })); },
          "Without it the file may be incomplete.");

  nb::class_<HadoopClient>(module, "HadoopClient",
                           "What Hadoop reaches from this process; Java starts with the first use.")
      .def(nb::init<std::string>(), nb::arg("spark_home"),
           "`spark_home`: where jars are looked for without SPARK_HOME, \"\" for nowhere.")
      .def(
          "status",
          [](const HadoopClient&, const std::string& path) {
            return TupleOf(Ask(&hadoop::FileSystem::Stat, path));
          },
          nb::arg("path"), "(is a directory, bytes, nanoseconds since 1970 of its last change)")
      .def("list", &List, nb::arg("path"), "(name, status) of each in a directory, in any order.")
      .def(
          "open",
          [](const HadoopClient&, const std::string& path) {
            return Ask(&hadoop::FileSystem::Open, path);
          },
          nb::arg("path"))
      .def(
          "create",
          [](const HadoopClient&, const std::string& path) {
            return Ask(&hadoop::FileSystem::Create, path);
          },
          nb::arg("path"), "A new file; one that is there is replaced.")
      .def(
          "rename",
          [](const HadoopClient&, const std::string& from, const std::string& to) {
            Ask(&hadoop::FileSystem::Rename, from, to);
          },
          nb::arg("source"), nb::arg("target"), "Replaces a file.")
      .def(
          "delete",
          [](const HadoopClient&, const std::string& path, bool recursive) {
            Ask(&hadoop::FileSystem::Delete, path, recursive);
          },
          nb::arg("path"), nb::arg("recursive"))
      .def(
          "mkdirs",
          [](const HadoopClient&, const std::string& path) {
            Ask(&hadoop::FileSystem::MakeDirectories, path);
          },
          nb::arg("path"))
      .def(
          "class_path",
          [](const HadoopClient&) { return FileValueOrThrow(files::HadoopClassPath()); },
          "Files and directories that Java is going to start with.")
      .def_prop_ro(
          "address",
          [](const HadoopClient&) { return reinterpret_cast<std::uintptr_t>(&ProcessTable()); },
          "Of its tfos_file_system (src/hadoop/plugin/file_system_table.h), for the plugin.");
  module.def("hadoop_is_in_use", &files::HadoopIsInUse,
             "Whether Hadoop's client of this process has taken its settings.");
  module.def("set_hadoop_properties", &files::SetHadoopProperties, nb::arg("shown"), nb::arg("all"),
             "Has Hadoop's client take `all` for TFOS_HADOOP_PROPERTIES while that is `shown`.");
}

}  // namespace tfos::python
