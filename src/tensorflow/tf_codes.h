#ifndef TFOS_TENSORFLOW_TF_CODES_H_
#define TFOS_TENSORFLOW_TF_CODES_H_

// Numbers of TensorFlow's C API, as far as tfos uses them.

namespace tfos::tensorflow {

/// TF_Code of tensorflow/c/tf_status.h.
enum TfCode : int {
  kTfOk = 0,
  kTfCancelled = 1,
  kTfUnknown = 2,
  kTfInvalidArgument = 3,
  kTfDeadlineExceeded = 4,
  kTfNotFound = 5,
  kTfAlreadyExists = 6,
  kTfPermissionDenied = 7,
  kTfResourceExhausted = 8,
  kTfFailedPrecondition = 9,
  kTfAborted = 10,
  kTfOutOfRange = 11,
  kTfUnimplemented = 12,
  kTfInternal = 13,
  kTfUnavailable = 14,
};

/// TF_DataType of tensorflow/c/tf_datatype.h.
enum TfDataType : int {
  kTfFloat = 1,
  kTfDouble = 2,
  kTfInt32 = 3,
  kTfUint8 = 4,
  kTfInt16 = 5,
  kTfInt8 = 6,
  kTfString = 7,
  kTfComplex64 = 8,
  kTfInt64 = 9,
  kTfBool = 10,
  kTfBfloat16 = 14,
  kTfUint16 = 17,
  kTfComplex128 = 18,
  kTfHalf = 19,
  kTfUint32 = 22,
  kTfUint64 = 23,
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_TF_CODES_H_
