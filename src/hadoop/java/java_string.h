#ifndef TFOS_HADOOP_JAVA_JAVA_STRING_H_
#define TFOS_HADOOP_JAVA_JAVA_STRING_H_

#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos::hadoop {

// Java's strings are UTF-16, and the UTF-8 of JNI is one of its own that has no characters outside
// the basic plane. So strings cross as UTF-16. Threads: any.

/// Errors: EINVAL when `text` is not UTF-8.
Result<std::u16string> ToUtf16(std::string_view text);

/// Half of a surrogate pair without the other becomes U+FFFD.
std::string ToUtf8(std::u16string_view text);

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_JAVA_JAVA_STRING_H_
