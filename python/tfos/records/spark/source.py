"""The format ``tfrecord`` for Spark 4, written in Python: for sessions without the jar.

Spark makes the objects here on the driver, and pickles them to its tasks.

Errors: :class:`tfos.errors.BadInputError` and :class:`OSError` with file and offset; Spark wraps
them into its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import types as sql

from tfos.errors import BadInputError
from tfos.files import hadoop_settings, paths
from tfos.records import files as record_files
from tfos.records import formats, listing
from tfos.records.listing import ListedFile
from tfos.records.spark import types
from tfos.records.spark import writer as records_spark_writer
from tfos.records.spark.datasource import DataSource, DataSourceWriter
from tfos.records.spark.options import (
    BAD_COLUMN,
    MAX_PARTITION_BYTES,
    READ_OPTIONS,
    WRITE_OPTIONS,
    Plan,
    check_options,
    compression_level,
    count,
    flag,
    overwrites_all,
    path_of,
    paths_of,
    plan_reading,
)
from tfos.records.spark.reader import TFRecordReader, directory_constants
from tfos.spark.connect import ConnectContext
from tfos.spark.sessions import case_matters, context_of

FORMAT = "tfrecord"

_INFERS_DIRECTORIES = "spark.sql.sources.partitionColumnTypeInference.enabled"

#: By their names, those of directories' values.
_TYPES = {
    kind.simpleString(): kind
    for kind in (
        sql.IntegerType(),
        sql.LongType(),
        sql.DoubleType(),
        sql.DateType(),
        sql.StringType(),
    )
}


class TFRecordSource(DataSource):
    """The format ``tfrecord``. Owner: Spark. See the module."""

    format_name = FORMAT
    #: Read from the session; this host's where it is not known.
    default_fs = "file://"
    working_dir = ""
    user: str | None = None
    parallelism = 1
    case_matters = False
    bad_column = BAD_COLUMN
    infers_directories = True
    hadoop_environment: Mapping[str, str] = {}

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return cls.format_name

    def schema(self) -> sql.StructType:
        """The columns of a sample of the records, and those of directories; each may be null."""
        check_options(self.options, READ_OPTIONS, "read")
        plan, files = plan_reading(self.options, self.bad_column), self.files()
        if plan.record_type == "ByteArray":
            found = sql.StructType([sql.StructField(types.BYTE_ARRAY_COLUMN, sql.BinaryType())])
        else:
            found = self._infer(files, plan)
        directories = listing.directory_columns(files)
        if not self.infers_directories:
            directories = dict.fromkeys(directories, "string")
        taken = set(map(self._compared, directories))
        asks_for_bad = "columnNameOfCorruptRecord" in self.options
        return sql.StructType(
            [
                *(field for field in found if self._compared(field.name) not in taken),
                *(sql.StructField(name, _TYPES[kind]) for name, kind in directories.items()),
                *([sql.StructField(plan.bad_column, sql.BinaryType())] if asks_for_bad else []),
            ]
        )

    def reader(self, schema: sql.StructType) -> TFRecordReader:
        """Reads with that schema, inferred or the user's."""
        check_options(self.options, READ_OPTIONS, "read")
        plan = plan_reading(self.options, self.bad_column)
        files = self._named_as_in(schema, self.files())
        directories = listing.directory_columns(files)
        columns = [name for name in schema.names if name not in directories]
        bad_column = plan.bad_column if plan.bad_column in columns else None
        if bad_column is not None:
            columns.remove(bad_column)
            if schema[bad_column].dataType != sql.BinaryType() or not schema[bad_column].nullable:
                raise BadInputError(
                    f"column {bad_column} takes bad records as they are, so it must be "
                    f"binary that "
                    f"may be null, and not {schema[bad_column].dataType.simpleString()}; or give "
                    "another name with the option columnNameOfCorruptRecord"
                )
        plan = plan._replace(bad_column=bad_column)
        if columns:
            types.check_schema(
                sql.StructType([schema[name] for name in columns]), plan.record_type, "read"
            )
        for file in files:
            directory_constants(file, schema)
        total = sum(file.size + listing.OPEN_COST_BYTES for file in files)
        most = count(self.options, "maxPartitionBytes", MAX_PARTITION_BYTES)
        part_bytes = min(most, max(listing.OPEN_COST_BYTES, total // self.parallelism))
        parts = listing.split_files(files, part_bytes, plan.compression)
        return TFRecordReader(
            schema, columns, plan, listing.pack_parts(parts, part_bytes), self.hadoop_environment
        )

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceWriter:
        """Writes rows of that schema into a directory. See :mod:`tfos.records.spark.writer`."""
        hadoop_settings.adopt(self.hadoop_environment)
        check_options(self.options, WRITE_OPTIONS, "written")
        record_type = types.record_type_of(self.options.get("recordType", "Example"))
        partition_by = tuple(json.loads(self.options.get("partitionColumns", "[]")))
        types.check_partition_columns(schema, partition_by)
        types.check_schema(
            records_spark_writer.data_schema(schema, partition_by), record_type, "written"
        )
        layout = records_spark_writer.Layout(
            schema,
            record_type,
            compression=formats.compression_of("", self.options.get("compression")),
            level=compression_level(self.options),
            index=flag(self.options, "index", False),
            partition_by=partition_by,
        )
        return records_spark_writer.start(
            self._resolve(path_of(self.options)),
            layout,
            if_exists="overwrite" if overwrite else self.options.get("ifExists", "append"),
            hadoop_environment=self.hadoop_environment,
            overwrites_all=overwrites_all(self.options),
        )

    def _resolve(self, path: str) -> str:
        if not self.working_dir:
            return path
        return paths.resolve(self.default_fs, self.working_dir, path, self.user)

    def files(self) -> list[ListedFile]:
        """What is to be read, as it is now."""
        hadoop_settings.adopt(self.hadoop_environment)
        given = [self._resolve(path) for path in paths_of(self.options)]
        files = listing.list_files(given, self.options.get("pathGlobFilter"))
        if not files:
            raise BadInputError(f"{', '.join(given)}: there is no file to read in it")
        if flag(self.options, "recursiveFileLookup", False):
            # Records may have a column of such a name.
            return [file._replace(directory_values=()) for file in files]
        return files

    def _compared(self, name: str) -> str:
        return name if self.case_matters else name.lower()

    def _named_as_in(self, schema: sql.StructType, files: list[ListedFile]) -> list[ListedFile]:
        """The files, with the names of their directories' columns written as the schema has
        them."""
        names = {self._compared(name): name for name in schema.names}
        return [
            file._replace(
                directory_values=tuple(
                    (names.get(self._compared(name), name), value)
                    for name, value in file.directory_values
                )
            )
            for file in files
        ]

    def _infer(self, files: Sequence[ListedFile], plan: Plan) -> sql.StructType:
        inferred = listing.infer_schema(
            files,
            record_type=plan.record_type,
            compression=plan.compression,
            sample=count(self.options, "sampleRecords", record_files.SAMPLE_RECORDS),
            strings=flag(self.options, "inferStrings", True),
            mode=plan.mode,
            validation=plan.validation,
        )
        if not inferred.names:
            raise BadInputError(
                f"{files[0].path}{' and others' if len(files) > 1 else ''}: no record in it has a "
                "value, so its columns can't be inferred; give them with schema(...)"
            )
        return types.spark_schema(inferred)


def source_of(spark: Any, name: str = FORMAT) -> type[TFRecordSource]:
    """The format, as a session needs it: with its file system and parallelism as they are now."""
    context = context_of(spark)
    known = {
        "format_name": name,
        "default_fs": paths.default_fs(context),
        "working_dir": os.getcwd(),
        # With Spark Connect it is the one of the server, where the format is read.
        "user": None if isinstance(context, ConnectContext) else context.sparkUser(),
        "parallelism": context.defaultParallelism,
        "case_matters": case_matters(spark),
        "infers_directories": spark.conf.get(_INFERS_DIRECTORIES, "true").lower() == "true",
        "bad_column": spark.conf.get("spark.sql.columnNameOfCorruptRecord", BAD_COLUMN),
        "hadoop_environment": hadoop_settings.of_session(context),
    }
    hadoop_settings.adopt(known["hadoop_environment"])
    # One for each session: a class that this module does not name is pickled with its values.
    return type("SessionTFRecordSource", (TFRecordSource,), known)
