#include "jvm/columns.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "jvm/column_layout.h"
#include "jvm/java_call.h"

namespace tfos::jvm {

Result<jlongArray> GiveColumns(JNIEnv* java, arrow::Field columns) {
  const std::vector<std::int64_t> numbers = NumbersOf(columns);
  const jlong handle = Hold(std::move(columns));
  jlongArray given = ToJava(java, handle, numbers);
  if (given == nullptr) Release<arrow::Field>(handle);
  return given;
}

}  // namespace tfos::jvm

extern "C" JNIEXPORT void JNICALL Java_tfos_internal_columns_NativeColumns_release(JNIEnv* /*java*/,
                                                                                   jclass /*type*/,
                                                                                   jlong columns) {
  tfos::jvm::Release<tfos::arrow::Field>(columns);
}
