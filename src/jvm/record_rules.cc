// The native methods of tfos.internal.records.RecordRules: what the jar decides as Python does.

#include <jni.h>

#include <cstdint>

#include "hadoop/java/jvm.h"
#include "jvm/java_call.h"
#include "records/framing/record_reader.h"
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

JNIEXPORT jstring JNICALL Java_tfos_internal_records_RecordRules_mode(JNIEnv* java, jclass /*type*/,
                                                                      jstring option) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const auto mode, records::ModeNamed(TextOf(java, option)));
    return ToJava(java, mode);
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_RecordRules_checkValidation(JNIEnv* java,
                                                                              jclass /*type*/,
                                                                              jstring option) {
  Enter(java, [&]() -> Status { return records::ValidationFrom(TextOf(java, option)).status(); });
}

JNIEXPORT jboolean JNICALL Java_tfos_internal_records_RecordRules_flag(JNIEnv* java,
                                                                       jclass /*type*/,
                                                                       jstring name,
                                                                       jstring value) {
  return Enter(java, [&]() -> Result<jboolean> {
    TFOS_ASSIGN_OR_RETURN(const bool flag,
                          records::FlagOf(TextOf(java, name), TextOf(java, value)));
    return static_cast<jboolean>(flag ? JNI_TRUE : JNI_FALSE);
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_records_RecordRules_count(JNIEnv* java, jclass /*type*/,
                                                                     jstring name, jstring value) {
  return Enter(java, [&]() -> Result<jlong> {
    TFOS_ASSIGN_OR_RETURN(const std::int64_t count,
                          records::CountOf(TextOf(java, name), TextOf(java, value)));
    return static_cast<jlong>(count);
  });
}

JNIEXPORT jint JNICALL Java_tfos_internal_records_RecordRules_compressionLevel(JNIEnv* java,
                                                                               jclass /*type*/,
                                                                               jstring value) {
  return Enter(java, [&]() -> Result<jint> {
    TFOS_ASSIGN_OR_RETURN(const int level, records::CompressionLevelOf(TextOf(java, value)));
    return static_cast<jint>(level);
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_records_RecordRules_checkIndex(JNIEnv* java,
                                                                         jclass /*type*/,
                                                                         jboolean index,
                                                                         jstring compression) {
  Enter(java, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const auto kind, records::CompressionFrom(TextOf(java, compression)));
    return records::CheckIndex(index == JNI_TRUE, kind);
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
