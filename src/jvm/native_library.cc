#include <jni.h>

extern "C" JNIEXPORT jstring JNICALL
Java_tfos_internal_base_NativeLibrary_version(JNIEnv* java, jclass /*type*/) {
  return java->NewStringUTF(TFOS_VERSION);
}
