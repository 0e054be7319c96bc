#ifndef TFOS_JVM_COLUMNS_H_
#define TFOS_JVM_COLUMNS_H_

#include <jni.h>

#include "arrow/export.h"
#include "tfos/status.h"

namespace tfos::jvm {

/// Hands columns to Java: their handle and their numbers (column_layout.h). They stay until Java
/// calls tfos.internal.columns.NativeColumns.release.
Result<jlongArray> GiveColumns(JNIEnv* java, arrow::Field columns);

}  // namespace tfos::jvm

#endif  // TFOS_JVM_COLUMNS_H_
