"""Sessions and the format ``tfrecord``: :func:`register_tfrecords` makes it known, and
:func:`save_tfrecords` writes with each of Spark's modes.

With the jar (``tfos.jar_path()``) on the class path Spark knows the format, and no row crosses a
Python worker. Without it the format of :mod:`tfos.records.spark.source` takes its place. Options
and types are in docs/tfrecords.md.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql.types import StructType

from tfos.base.choices import check_choice
from tfos.errors import BadInputError
from tfos.files import hadoop_settings
from tfos.records.listing import ListedFile
from tfos.records.spark import jobs, types
from tfos.records.spark import writer as records_spark_writer
from tfos.records.spark.options import Options
from tfos.records.spark.source import FORMAT, source_of
from tfos.spark import failures, jar, versions
from tfos.spark.connect import is_connect
from tfos.spark.sessions import context_of

logger = logging.getLogger(__name__)

#: Whether overwriting replaces all partitions ("static"), or those that are written ("dynamic").
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def register_tfrecords(spark: Any) -> None:
    """Makes ``format("tfrecord")`` known to a SparkSession; a second time changes nothing.

    Where the jar of tfos is on the driver's class path, the format is there already, faster than
    this one and with all of Spark's save modes: then nothing is registered.

    Args:
        spark: a SparkSession; without the jar one of Spark 4. Its default file system, working
            directory, parallelism and settings (case sensitivity, column of bad records, types of
            directories' values) are taken over as they are now. Its ``spark.hadoop.*`` properties
            and ``spark.tfos.hadoop.*`` settings go to Hadoop's client of this process as well
            (:func:`tfos.files.hadoop_settings.adopt`).
    """
    failures.install()
    if _is_in_jvm(spark):
        hadoop_settings.adopt(hadoop_settings.of_session(spark.sparkContext))
    else:
        register_python(spark, FORMAT)


def _is_in_jvm(spark: Any) -> bool:
    """Whether Spark finds the jar's format, which it then prefers to any that is written in
    Python."""
    context = context_of(spark)
    if is_connect(spark) or jar.why_unloadable(context):
        return False
    records = context._jvm.tfos.internal.records
    if not isinstance(records.spark.TFRecordFormat, JavaClass):
        return False
    obstacle = jar.obstacle(context)
    if obstacle:
        logger.warning("format(%r) is the one of the jar, and may not work: %s", FORMAT, obstacle)
    return True


def register_python(spark: Any, name: str) -> None:
    """Makes the format that is written in Python known by a name, which no jar has. Raises
    :class:`BadInputError` where Spark takes none in Python."""
    version = context_of(spark).version
    if not versions.has_python_data_sources(version):
        raise BadInputError(
            f'format("{FORMAT}") without the jar of tfos needs Spark 4.0 or newer, and this is '
            f"{version}: {versions.WITHOUT_DATA_SOURCES}"
        )
    spark.dataSource.register(source_of(spark, name))
    if is_connect(spark):
        return
    # Spark looks formats up in the thread's active session, which only its first thread has.
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def list_files(spark: Any, path: str) -> list[ListedFile]:
    """The files that ``load(path)`` reads in a session."""
    return source_of(spark)({"path": path}).files()


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
    failures.install()
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
    record_type = types.record_type_of(Options(options).get("recordType", "Example"))
    types.check_schema(
        records_spark_writer.data_schema(frame.schema, partition_by), record_type, "written"
    )
    check_choice("mode", mode, ("error", "errorifexists", "ignore", "append", "overwrite"))


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
    spark = frame.sparkSession
    options = dict(options)
    if partition_by:
        frame = frame.sortWithinPartitions(*(f"`{name}`" for name in partition_by))
        options["partitionColumns"] = json.dumps(partition_by)
        if "partitionoverwritemode" not in map(str.lower, options):
            options["partitionOverwriteMode"] = spark.conf.get(_OVERWRITE_MODE, "static")
    if not versions.has_python_data_sources(spark.version):
        save_by_job(frame, path, mode, options)
        return
    register_python(spark, format_name)
    writer = frame.write.format(format_name).mode("overwrite" if mode == "overwrite" else "append")
    if mode != "overwrite":
        writer = writer.option("ifExists", "error" if mode == "errorifexists" else mode)
    writer.options(**options).save(path)


def save_by_job(frame: Any, path: str, mode: str, options: dict[str, Any]) -> None:
    """The same by a job of its own, which each version of Spark can run."""
    if_exists = "error" if mode == "errorifexists" else mode
    given = Options({**options, "path": path, "ifExists": if_exists})
    writer = source_of(frame.sparkSession)(given).writer(frame.schema, mode == "overwrite")
    jobs.save(frame, writer)


def load(spark: Any, path: str, schema: StructType) -> Any:
    """A DataFrame of the files at a path, by the jar's format, by Python's, or by a job."""
    if not (versions.has_python_data_sources(spark.version) or _is_in_jvm(spark)):
        return load_by_job(spark, path, schema)
    register_tfrecords(spark)
    return spark.read.format(FORMAT).schema(schema).load(path)


def load_by_job(spark: Any, path: str, schema: StructType) -> Any:
    """A DataFrame of the files at a path, read by such a job."""
    return jobs.load(spark, source_of(spark)({"path": path}).reader(schema), schema)
