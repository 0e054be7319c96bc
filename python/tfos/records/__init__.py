"""TFRecord files and tf.Example as Arrow record batches, without TensorFlow.

    for batch in tfos.records.read("part-0.tfrecord"):
        ...                                  # a pyarrow.RecordBatch
    tfos.records.write("copy.tfrecord", batches, compression="gzip")

What becomes of which type, and what of damaged files, is in docs/formats/tfrecord.md. Paths may be
URIs of Hadoop's file systems (docs/hdfs.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfos.base import lazy

if TYPE_CHECKING:
    from tfos.records.files import (
        Part,
        Reader,
        decode,
        encode,
        infer_schema,
        make_index,
        read,
        read_records,
        records_of,
        split,
        verify,
        write,
        write_records,
    )

__all__ = [
    "Part",
    "Reader",
    "decode",
    "encode",
    "infer_schema",
    "make_index",
    "read",
    "read_records",
    "records_of",
    "split",
    "verify",
    "write",
    "write_records",
]

__getattr__, __dir__ = lazy.attach(__name__, dict.fromkeys(__all__, "tfos.records.files"))
