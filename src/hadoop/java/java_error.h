#ifndef TFOS_HADOOP_JAVA_JAVA_ERROR_H_
#define TFOS_HADOOP_JAVA_JAVA_ERROR_H_

#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos::hadoop {

/// A Java exception as text. Owner and lifetime: a value.
struct JavaException {
  std::string text;        ///< Its toString(): class and message.
  std::string root_cause;  ///< That of the cause of all its causes; "" when it has none.
};

/// The failure that `exception` is to a C++ caller who was `doing` something ("open hdfs://...").
/// Its code is the errno that says the same (a FileNotFoundException is ENOENT), its kind follows
/// from that. The message names class, message and root cause, and what to do where that is known;
/// the stack traces that a NameNode puts into messages are left out.
Status FromJava(const JavaException& exception, std::string_view doing);

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_JAVA_JAVA_ERROR_H_
