#ifndef TFOS_TENSORFLOW_CHUNK_TYPE_H_
#define TFOS_TENSORFLOW_CHUNK_TYPE_H_

#include <cstdint>
#include <iterator>

#include "tensorflow/tf_codes.h"

namespace tfos::tensorflow {

/// The TF_DataType of what a column of a chunk holds, by the numbers of docs/formats/chunk.md; 0
/// for a number that the format does not define. A column without a type of numbers has strings.
constexpr int TypeOfChunk(std::int32_t dtype) {
  constexpr int kTypes[] = {kTfString, kTfBool,  kTfInt8,   kTfInt16,     kTfInt32,
                            kTfInt64,  kTfUint8, kTfUint16, kTfUint32,    kTfUint64,
                            kTfHalf,   kTfFloat, kTfDouble, kTfComplex64, kTfComplex128};
  return dtype >= 0 && dtype < std::ssize(kTypes) ? kTypes[dtype] : 0;
}

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_CHUNK_TYPE_H_
