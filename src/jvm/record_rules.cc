// The native methods of tfos.internal.records.RecordRules: what the jar decides as Python does.

#include <jni.h>

#include "hadoop/java/jvm.h"
#include "jvm/java_call.h"
#include "records/schema/record_options.h"
#include "records/schema/spark_columns.h"

using namespace tfos;       // NOLINT: what follows is C.
using namespace tfos::jvm;  // NOLINT
using hadoop::TextOf;

extern "C" {

JNIEXPORT jstring JNICALL Java_tfos_internal_records_RecordRules_recordType(JNIEnv* java,
                                                                            jclass /*type*/,
                                                                            jstring name) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto type, records::RecordTypeNamed(TextOf(java, name)));
    return ToJava(java, records::RecordTypeName(type));
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_records_RecordRules_compression(JNIEnv* java,
                                                                             jclass /*type*/,
                                                                             jstring option) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionNamed(TextOf(java, option)));
    return ToJava(java, records::CompressionName(kind));
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_records_RecordRules_compressionOf(JNIEnv* java,
                                                                               jclass /*type*/,
                                                                               jstring file) {
  return Enter(java, [&]() -> Result<jstring> {
    return ToJava(java, records::CompressionName(records::CompressionOfPath(TextOf(java, file))));
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_records_RecordRules_suffixOf(JNIEnv* java,
                                                                          jclass /*type*/,
                                                                          jstring compression) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionFrom(TextOf(java, compression)));
    return ToJava(java, records::SuffixOf(kind));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_RecordRules_check(JNIEnv* java, jclass /*type*/,
                                                                    jstring schema,
                                                                    jstring record_type,
                                                                    jboolean written) {
  Enter(java, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const auto type, records::RecordTypeNamed(TextOf(java, record_type)));
    const auto use = written == JNI_TRUE ? records::ColumnUse::kWritten : records::ColumnUse::kRead;
    return records::CheckSparkColumns(TextOf(java, schema), type, use);
  });
}

}  // extern "C"
