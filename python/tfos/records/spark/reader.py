"""Reading TFRecords in Spark's tasks, for the format that is written in Python.

Spark pickles what is here from the driver to its tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import types as sql

from tfos.base.arrow import pa
from tfos.files import hadoop_settings
from tfos.files.access import access_for
from tfos.records import files as record_files
from tfos.records import listing
from tfos.records.listing import FilePart, ListedFile
from tfos.records.spark import types
from tfos.records.spark.datasource import DataSourceReader, InputPartition
from tfos.records.spark.options import Plan

logger = logging.getLogger(__name__)

#: Records of a batch of recordType ByteArray, and their bytes at most before the last of them.
_BYTE_ARRAY_ROWS = 4_096
_BYTE_ARRAY_BYTES = 16 << 20


class FileParts(InputPartition):
    """What one task reads."""

    def __init__(self, parts: list[FilePart]):
        super().__init__([part.file.path for part in parts])
        self.parts = parts


class TFRecordReader(DataSourceReader):
    """Reads parts of files as record batches. Owner: Spark.

    Pickled from driver to tasks, without the parts of files: a task gets those that it reads as a
    partition. So ``partitions`` works only in the process that has made the reader.
    """

    def __init__(
        self,
        schema: sql.StructType,
        columns: list[str],
        plan: Plan,
        tasks: list[list[FilePart]],
        hadoop_environment: Mapping[str, str],
    ):
        self._schema = schema
        self._columns = columns
        self._plan = plan
        self._tasks = tasks
        self._hadoop_environment = hadoop_environment

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tasks"}

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [FileParts(parts) for parts in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, in the order of files and records.

        Bad records that the mode passes over are counted, with the first one's file and offset, in
        the executor's log.
        """
        hadoop_settings.adopt(self._hadoop_environment)
        convert = types.to_spark(self._schema)
        codec_schema = types.codec_schema(self._schema, self._columns)
        for part in partition.parts:
            constants = directory_constants(part.file, self._schema)
            reader = self._open(part, codec_schema)
            for batch in reader:
                yield convert(batch, constants)
            counts = reader.counts
            if counts["bad_records"] or counts["lost"]:
                logger.warning(
                    "%s: %d records read, %d bad ones %s%s; the first: %s",
                    part.file.path,
                    counts["records"],
                    counts["bad_records"],
                    "left out" if self._plan.mode == "dropmalformed" else "are rows of nulls",
                    ", and a part of the file is lost" if counts["lost"] else "",
                    counts["first_problem"],
                )

    def _open(self, part: FilePart, codec_schema: pa.Schema) -> Any:
        access, path = access_for(part.file.path)
        path = access.native_path(path)
        options: dict[str, Any] = {
            "compression": listing.compression_of(path, self._plan.compression),
            "validation": self._plan.validation,
            "part": part.part,
        }
        if self._plan.record_type == "ByteArray":
            return _ByteArrays(
                record_files.RecordStream(path, mode=self._plan.mode, **options), codec_schema
            )
        return record_files.Reader(
            path,
            codec_schema,
            record_type=self._plan.record_type,
            mode=self._plan.mode,
            bad_column=self._plan.bad_column,
            **options,
        )


class _ByteArrays:
    """Records as they are, as batches of one column. Has what :class:`tfos.records.Reader` has."""

    def __init__(self, stream: record_files.RecordStream, schema: pa.Schema):
        self._stream = stream
        self._schema = schema

    @property
    def counts(self) -> dict[str, Any]:
        return self._stream.counts

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        held: list[bytes | None] = []
        size = 0
        for record in self._stream:
            held.append(record)
            size += len(record or b"")
            if len(held) == _BYTE_ARRAY_ROWS or size > _BYTE_ARRAY_BYTES:
                yield self._batch(held)
                held, size = [], 0
        if held:
            yield self._batch(held)

    def _batch(self, held: list[bytes | None]) -> pa.RecordBatch:
        if not self._schema.names:  # Only columns of directories are asked for.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(held), pa.struct([])))
        column = pa.array(held, pa.binary())
        return pa.RecordBatch.from_arrays([column.cast(self._schema.types[0])], schema=self._schema)


def directory_constants(file: ListedFile, schema: sql.StructType) -> dict[str, pa.Scalar]:
    """The columns of a file's directories, as far as the schema has them."""
    return {
        name: types.directory_scalar(name, value, schema[name].dataType)
        for name, value in file.directory_values
        if name in schema.names
    }
