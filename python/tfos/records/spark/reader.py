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
from tfos.records.listing import FilePart, ListedFile
from tfos.records.spark import types
from tfos.records.spark.datasource import DataSourceReader, InputPartition
from tfos.records.spark.options import Plan

logger = logging.getLogger(__name__)


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

    def _open(self, part: FilePart, codec_schema: pa.Schema) -> record_files.Reader:
        access, path = access_for(part.file.path)
        path = access.native_path(path)
        return record_files.Reader(
            path,
            codec_schema,
            record_type=self._plan.record_type,
            compression=self._plan.compression,
            mode=self._plan.mode,
            validation=self._plan.validation,
            part=part.part,
            bad_column=self._plan.bad_column,
        )


def directory_constants(file: ListedFile, schema: sql.StructType) -> dict[str, pa.Scalar]:
    """The columns of a file's directories, as far as the schema has them."""
    return {
        name: types.directory_scalar(name, value, schema[name].dataType)
        for name, value in file.directory_values
        if name in schema.names
    }
