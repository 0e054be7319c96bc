#include "hadoop/files/place.h"

#include <cerrno>
#include <string>

#include "base/format.h"

namespace tfos::hadoop {

Result<Place> Find(const Call& call, std::string_view path) {
  Place place;
  TFOS_ASSIGN_OR_RETURN(place.path, call.Path(path));
  auto system = call.FileSystemOf(place.path);
  if (!system.ok()) return system.status().Annotate(std::string(path));
  place.system = *system;
  return place;
}

Result<jobject> OfPath(const Call& call, jmethodID method, std::string_view path,
                       std::string_view doing) {
  TFOS_ASSIGN_OR_RETURN(const Place place, Find(call, path));
  jobject object = call.java()->CallObjectMethod(place.system, method, place.path);
  TFOS_RETURN_IF_ERROR(TakeException(call.java(), fmt::format("{} {}", doing, path)));
  if (object == nullptr) {
    return Status::FromErrno(EIO, fmt::format("{} {}: Hadoop gave nothing", doing, path));
  }
  return object;
}

}  // namespace tfos::hadoop
