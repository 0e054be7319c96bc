"""TFRecords by jobs of ``mapInArrow``: for Spark 3.5, which takes no format written in Python.

The reader and the writer are those of the format, called here as Spark 4 calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
from pyspark.sql import types as sql

from tfos.base.arrow import pa
from tfos.records.spark.datasource import DataSourceReader, DataSourceWriter
from tfos.spark.arrow_types import as_arrow_source

_MESSAGE = "message"
_PARTITION = "partition"


def save(frame: Any, writer: DataSourceWriter) -> None:
    """Writes a DataFrame: all of it becomes visible, or nothing."""
    frame, _ = as_arrow_source(frame)  # The writer knows the names.
    try:
        rows = frame.mapInArrow(_writes(writer), f"{_MESSAGE} binary").collect()
        writer.commit([cloudpickle.loads(bytes(row[_MESSAGE])) for row in rows])
    except BaseException:
        writer.abort([])
        raise


def load(spark: Any, reader: DataSourceReader, schema: sql.StructType) -> Any:
    """A lazy DataFrame of what a reader finds, a task for each of its partitions.

    Each task gets its own partition alone, as a row: thousands of files have long lists.
    """
    partitions = [(cloudpickle.dumps(one),) for one in reader.partitions()]
    if not partitions:
        return spark.createDataFrame([], schema)
    rows = spark.sparkContext.parallelize(partitions, len(partitions))
    frame = spark.createDataFrame(rows, f"{_PARTITION} binary")
    return frame.mapInArrow(_reads(reader), schema)


# Spark takes functions only. What they have inside them travels to the tasks with them.


def _writes(
    writer: DataSourceWriter,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = cloudpickle.dumps(writer.write(batches))
        yield pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], names=[_MESSAGE])

    return write


def _reads(
    reader: DataSourceReader,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                yield from reader.read(cloudpickle.loads(partition))

    return read
