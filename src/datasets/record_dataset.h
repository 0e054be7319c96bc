#ifndef TFOS_DATASETS_RECORD_DATASET_H_
#define TFOS_DATASETS_RECORD_DATASET_H_

#include <cstdint>

#include "records/files/example_batches.h"
#include "tensorflow/ops/batch_source_table.h"
#include "tfos/status.h"

namespace tfos::datasets {

/// Registers TFRecord files with the ops of src/tensorflow, as a source of which each pass reads
/// the files from their begin, ahead of their consumer, on a thread of its own. Returns the
/// handle, which stays as long as the process: nothing says when the last dataset is gone.
///
/// A column is a tensor of the rows' values, a matrix if it has fixed-size lists. For lists of any
/// length, it is the values of all of them and one more boundary (int64) than there are rows. For
/// lists of lists, it is all values, the boundaries of the inner lists, and of the outer ones.
/// Columns of single values and of fixed-size lists must not be nullable.
///   kUnsupported  the library is of another version
Result<std::int64_t> RegisterRecordDataset(records::ExampleBatchesOptions options,
                                           tfos_register_function add);

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_RECORD_DATASET_H_
