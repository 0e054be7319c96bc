"""``spark.read.format("tfrecord")`` and ``df.write.format("tfrecord")``: TFRecords for Spark 4.

With the jar (``tfos.jar_path()``) on the class path Spark knows the format and no row crosses a
Python worker; here is what does without. :func:`register` makes the format known to a session.
Options and types are in docs/tfrecords.md. Spark makes the objects here on the driver, and pickles
them to its tasks.

Errors: :class:`tfos.errors.BadInputError` and :class:`OSError` with file and offset; Spark wraps
them into its own.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyspark
from py4j.java_gateway import JavaClass
from pyspark.sql import types as sql

from tfos.base.arrow import pa
from tfos.errors import BadInputError, TfosError
from tfos.files import hadoop_settings, paths
from tfos.files.access import access_for
from tfos.records import files as record_files
from tfos.records import listing
from tfos.records.listing import FilePart, ListedFile
from tfos.records.spark import types
from tfos.records.spark import writer as records_spark_writer
from tfos.spark import jar
from tfos.spark.sessions import context_of

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceWriter,
        InputPartition,
    )
except ImportError as error:
    raise TfosError(
        f"the format tfrecord needs Spark 4.1 or newer, and this is PySpark {pyspark.__version__}: "
        'install "pyspark>=4.1,<5"'
    ) from error

FORMAT = "tfrecord"

#: Major and minor version from which on Spark has all that the format uses.
_OLDEST_SPARK = (4, 1)

#: Bytes that a task reads at most, where the files can be put together and split so; Spark's
#: default of spark.sql.files.maxPartitionBytes.
MAX_PARTITION_BYTES = 128 << 20

#: Where bad records go in mode permissive if the schema has it, as in Spark's own sources; Spark's
#: default of spark.sql.columnNameOfCorruptRecord.
BAD_COLUMN = "_corrupt_record"

#: Records of a batch of recordType ByteArray, and their bytes at most before the last of them.
_BYTE_ARRAY_ROWS = 4_096
_BYTE_ARRAY_BYTES = 16 << 20

_READ_OPTIONS = {
    "path",
    "paths",
    "recordtype",
    "compression",
    "mode",
    "samplerecords",
    "inferstrings",
    "pathglobfilter",
    "recursivefilelookup",
    "maxpartitionbytes",
    "validation",
    "columnnameofcorruptrecord",
}
_WRITE_OPTIONS = {
    "path",
    "recordtype",
    "compression",
    "compressionlevel",
    "index",
    "ifexists",
    "partitioncolumns",
}

logger = logging.getLogger(__name__)


def register(spark: Any) -> None:
    """Makes ``format("tfrecord")`` known to a SparkSession; a second time changes nothing.

    Where the jar of tfos is on the driver's class path, the format is there already, faster than
    this one and with all of Spark's save modes: then nothing is registered.

    Args:
        spark: a SparkSession of Spark 4. Its default file system, working directory and
            parallelism are taken over as they are now. Its ``spark.hadoop.*`` properties and
            ``spark.tfos.hadoop.*`` settings go to Hadoop's client of this process as well
            (:func:`tfos.files.hadoop_settings.adopt`).
    """
    context = context_of(spark)
    if tuple(int(number) for number in context.version.split(".")[:2]) < _OLDEST_SPARK:
        raise BadInputError(
            f"the format tfrecord needs Spark 4.1 or newer, and this is {context.version}"
        )
    if _is_in_jvm(spark):
        hadoop_settings.adopt(hadoop_settings.of_session(spark.sparkContext))
    else:
        register_python(spark, FORMAT)


def _is_in_jvm(spark: Any) -> bool:
    """Whether Spark finds the jar's format, which it then prefers to any that is written in
    Python."""
    found = spark.sparkContext._jvm.tfos.internal.records.spark.TFRecordFormat
    if not isinstance(found, JavaClass):
        return False
    obstacle = jar.obstacle(spark.sparkContext)
    if obstacle:
        logger.warning("format(%r) is the one of the jar, and may not work: %s", FORMAT, obstacle)
    return True


def register_python(spark: Any, name: str) -> None:
    """Makes the format that is written in Python known by a name, which no jar has."""
    spark.dataSource.register(_source_of(spark, name))
    # Spark looks formats up in the thread's active session, which only its first thread has.
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def list_files(spark: Any, path: str) -> list[ListedFile]:
    """The files that ``load(path)`` reads in a session."""
    return _source_of(spark)({"path": path}).files()


def _source_of(spark: Any, name: str = FORMAT) -> type[TFRecordSource]:
    context = spark.sparkContext
    known = {
        "format_name": name,
        "default_fs": paths.default_fs(context),
        "working_dir": os.getcwd(),
        "parallelism": context.defaultParallelism,
        "hadoop_environment": hadoop_settings.of_session(context),
    }
    hadoop_settings.adopt(known["hadoop_environment"])
    # Of its own for each session: what is no attribute of this module is pickled with its values.
    return type("SessionTFRecordSource", (TFRecordSource,), known)


def save_tfrecords(
    frame: Any,
    path: str | os.PathLike[str],
    mode: str = "error",
    partition_by: Sequence[str] = (),
    **options: Any,
) -> None:
    """Writes a DataFrame as ``frame.write.format("tfrecord")`` does, with each of Spark's modes.

    Without the jar Spark's own ``DataFrameWriter`` knows only append and overwrite.

    Args:
        path: of a directory.
        mode: what becomes of one that has files: "error", "ignore", "append", "overwrite".
        partition_by: columns that go into the names of directories ``name=value`` instead of
            records; of strings, integers, booleans or dates. Each task sorts its rows by them.
        options: those of docs/tfrecords.md.

    Raises :class:`BadInputError` before anything runs for columns that records can't hold.
    """
    path = os.fspath(path)
    context_of(frame.sparkSession)
    partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    check_writable(frame, mode, partition_by, options)
    if _is_in_jvm(frame.sparkSession):
        frame.write.format(FORMAT).mode(mode).partitionBy(*partition_by).options(**options).save(
            path
        )
    else:
        save_by_python(frame, path, mode, partition_by, FORMAT, options)


def check_writable(
    frame: Any, mode: str, partition_by: Sequence[str], options: dict[str, Any]
) -> None:
    """Raises :class:`BadInputError` for what :func:`save_tfrecords` can't do."""
    types.check_partition_columns(frame.schema, partition_by)
    record_type = types.record_type_of(str(options.get("recordType", "Example")))
    types.check_schema(
        records_spark_writer.data_schema(frame.schema, partition_by), record_type, "written"
    )
    if mode not in ("error", "errorifexists", "ignore", "append", "overwrite"):
        raise BadInputError(f"mode {mode!r} is none of error, ignore, append, overwrite")


def save_by_python(
    frame: Any,
    path: str,
    mode: str,
    partition_by: Sequence[str],
    format_name: str,
    options: dict[str, Any],
) -> None:
    """Writes a DataFrame that was checked by the format that is written in Python, under that
    name."""
    register_python(frame.sparkSession, format_name)
    options = dict(options)
    if partition_by:
        frame = frame.sortWithinPartitions(*(f"`{name}`" for name in partition_by))
        options["partitionColumns"] = json.dumps(partition_by)
    writer = frame.write.format(format_name).mode("overwrite" if mode == "overwrite" else "append")
    if mode != "overwrite":
        writer = writer.option("ifExists", "error" if mode == "errorifexists" else mode)
    writer.options(**options).save(path)


class Plan(NamedTuple):
    """How files are read. All of it was checked."""

    record_type: str
    compression: str | None
    mode: str
    validation: str | None
    #: The column that bad records go to; the schema need not have it.
    bad_column: str | None


class TFRecordSource(DataSource):
    """The format ``tfrecord``. Owner: Spark. See the module."""

    format_name = FORMAT
    #: Of the session; of this host where it is not known.
    default_fs = "file://"
    working_dir = ""
    parallelism = 1
    hadoop_environment: Mapping[str, str] = {}

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return cls.format_name

    def schema(self) -> sql.StructType:
        """The columns of a sample of the records, and those of directories; each may be null."""
        _check_options(self.options, _READ_OPTIONS, "read")
        plan, files = self._plan(), self.files()
        if plan.record_type == "ByteArray":
            found = sql.StructType([sql.StructField(types.BYTE_ARRAY_COLUMN, sql.BinaryType())])
        else:
            found = self._infer(files, plan)
        directories = self._directory_columns(files)
        kinds = {int: sql.LongType(), str: sql.StringType()}
        asks_for_bad = "columnNameOfCorruptRecord" in self.options
        return sql.StructType(
            [
                *(field for field in found if field.name not in directories),
                *(sql.StructField(name, kinds[kind]) for name, kind in directories.items()),
                *([sql.StructField(plan.bad_column, sql.BinaryType())] if asks_for_bad else []),
            ]
        )

    def reader(self, schema: sql.StructType) -> TFRecordReader:
        """Reads with that schema, inferred or the user's."""
        _check_options(self.options, _READ_OPTIONS, "read")
        plan, files = self._plan(), self.files()
        directories = self._directory_columns(files)
        columns = [name for name in schema.names if name not in directories]
        bad_column = plan.bad_column if plan.bad_column in columns else None
        if bad_column is not None:
            columns.remove(bad_column)
            if schema[bad_column].dataType != sql.BinaryType() or not schema[bad_column].nullable:
                raise BadInputError(
                    f"column {bad_column} takes bad records as they are, so it has to be "
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
            _constants(file, schema)
        total = sum(file.size + listing.OPEN_COST_BYTES for file in files)
        most = _integer(self.options, "maxPartitionBytes", MAX_PARTITION_BYTES)
        part_bytes = min(most, max(listing.OPEN_COST_BYTES, total // self.parallelism))
        parts = listing.split_files(files, part_bytes, plan.compression)
        return TFRecordReader(
            schema, columns, plan, listing.pack_parts(parts, part_bytes), self.hadoop_environment
        )

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceWriter:
        """Writes rows of that schema into a directory. See :mod:`tfos.records.spark.writer`."""
        hadoop_settings.adopt(self.hadoop_environment)
        _check_options(self.options, _WRITE_OPTIONS, "written")
        record_type = types.record_type_of(self.options.get("recordType", "Example"))
        partition_by = tuple(json.loads(self.options.get("partitionColumns", "[]")))
        types.check_partition_columns(schema, partition_by)
        types.check_schema(
            records_spark_writer.data_schema(schema, partition_by), record_type, "written"
        )
        level = self.options.get("compressionLevel")
        layout = records_spark_writer.Layout(
            schema,
            record_type,
            compression=listing.compression_of("", self.options.get("compression")),
            level=None if level is None else _integer(self.options, "compressionLevel", 0),
            index=_flag(self.options, "index", False),
            partition_by=partition_by,
        )
        return records_spark_writer.start(
            self._resolve(self._paths()[0]),
            layout,
            if_exists="overwrite" if overwrite else self.options.get("ifExists", "append"),
            hadoop_environment=self.hadoop_environment,
        )

    def _plan(self) -> Plan:
        mode = self.options.get("mode", "failfast").lower()
        if mode not in ("failfast", "dropmalformed", "permissive"):
            raise BadInputError(f"mode {mode!r} is none of failfast, dropmalformed, permissive")
        compression = self.options.get("compression")
        listing.compression_of("", compression)
        record_type = types.record_type_of(self.options.get("recordType", "Example"))
        keeps = mode == "permissive" and record_type != "ByteArray"
        if "columnNameOfCorruptRecord" in self.options and not keeps:
            raise BadInputError(
                "columnNameOfCorruptRecord goes with mode permissive, and not with "
                "recordType ByteArray"
            )
        bad_column = self.options.get("columnNameOfCorruptRecord", BAD_COLUMN) if keeps else None
        return Plan(record_type, compression, mode, self.options.get("validation"), bad_column)

    def _paths(self) -> list[str]:
        if "paths" in self.options:
            return list(json.loads(self.options["paths"]))
        if not self.options.get("path"):
            raise BadInputError(
                'a path is missing, as in load("/data/digits") or save("/data/digits")'
            )
        return [self.options["path"]]

    def _resolve(self, path: str) -> str:
        return paths.resolve(self.default_fs, self.working_dir, path) if self.working_dir else path

    def files(self) -> list[ListedFile]:
        """What is to be read, as it is now."""
        hadoop_settings.adopt(self.hadoop_environment)
        given = [self._resolve(path) for path in self._paths()]
        files = listing.list_files(given, self.options.get("pathGlobFilter"))
        if not files:
            raise BadInputError(f"{', '.join(given)}: there is no file to read in it")
        return files

    def _directory_columns(self, files: Sequence[ListedFile]) -> dict[str, type]:
        if _flag(self.options, "recursiveFileLookup", False):
            return {}
        return listing.directory_columns(files)

    def _infer(self, files: Sequence[ListedFile], plan: Plan) -> sql.StructType:
        inferred = listing.infer_schema(
            files,
            record_type=plan.record_type,
            compression=plan.compression,
            sample=_integer(self.options, "sampleRecords", record_files.SAMPLE_RECORDS),
            strings=_flag(self.options, "inferStrings", True),
            mode=plan.mode,
        )
        if not inferred.names:
            raise BadInputError(
                f"{files[0].path}{' and others' if len(files) > 1 else ''}: no record in it has a "
                "value, so its columns can't be inferred; give them with schema(...)"
            )
        return types.spark_schema(inferred)


class FileParts(InputPartition):
    """What one task reads."""

    def __init__(self, parts: list[FilePart]):
        super().__init__([part.file.path for part in parts])
        self.parts = parts


class TFRecordReader(DataSourceReader):
    """Reads parts of files as record batches. Owner: Spark. Pickled from driver to tasks."""

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
            constants = _constants(part.file, self._schema)
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


def _constants(file: ListedFile, schema: sql.StructType) -> dict[str, pa.Scalar]:
    """The columns of a file's directories, as far as the schema has them."""
    return {
        name: types.directory_scalar(name, value, schema[name].dataType)
        for name, value in file.directory_values
        if name in schema.names
    }


def _check_options(options: Any, known: set[str], action: str) -> None:
    unknown = sorted(name for name in options if name.lower() not in known)
    if unknown:
        raise BadInputError(
            f"TFRecords can't be {action} with the option {', '.join(unknown)}; there are "
            f"{', '.join(sorted(known - {'path', 'paths'}))}"
        )


def _flag(options: Any, name: str, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise BadInputError(f"{name}={value!r} is neither true nor false")
    return value == "true"


def _integer(options: Any, name: str, default: int) -> int:
    value = options.get(name, str(default))
    if not value.isascii() or not value.isdigit() or (int(value) == 0 and default):
        raise BadInputError(f"{name}={value!r} is no positive number")
    return int(value)
