#ifndef TFOS_HADOOP_FILES_PLACE_H_
#define TFOS_HADOOP_FILES_PLACE_H_

#include <jni.h>

#include <string_view>

#include "hadoop/java/client.h"

namespace tfos::hadoop {

/// A path of a call and its file system, both in Java.
struct Place {
  jobject path = nullptr;
  jobject system = nullptr;
};

/// Errors: those of Hadoop, with the path.
Result<Place> Find(const Call& call, std::string_view path);

/// Calls a method Path -> object of the path's file system. Errors: those of Hadoop, as the
/// failure of `doing` with the path.
Result<jobject> OfPath(const Call& call, jmethodID method, std::string_view path,
                       std::string_view doing);

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_PLACE_H_
