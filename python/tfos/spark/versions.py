"""What differs between the versions of Spark that tfos runs on: 3.5, and 4.0 to 4.3.

All of it is looked up here, when it is used, and nowhere else. So the same package serves each.
Errors: none but those that a function names.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: What to do where formats can't be written in Python.
WITHOUT_DATA_SOURCES = (
    "write with tfos.save_tfrecords, and read with loadTFRecords of tensorflowonspark.dfutil; or "
    "use a newer Spark"
)
_PYTHON_DATA_SOURCES = (4, 0)
_STAGES_BY_SESSION = (4, 0)
_CANCELS_FUTURE_JOBS = (4, 0)
_COUNTS_GPUS_OF_PROFILES = (4, 0)
#: The jar runs from the first on, and below the second.
_OF_JAR = ((3, 5), (5, 0))
#: Java's version that the jar was compiled for.
_JAVA_OF_JAR = 11


def number_of(version: str) -> tuple[int, int]:
    """Major and minor number of a version such as ``4.1.4`` or ``3.5.1-amzn-0``."""
    major, minor = version.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))


def types_named(*names: str) -> tuple[type, ...]:
    """Those of Spark's SQL types that this version has, for ``isinstance``."""
    from pyspark.sql import types as sql

    found = (getattr(sql, name, None) for name in names)
    return tuple(kind for kind in found if kind is not None)


def type_from_ddl(ddl: str) -> DataType:
    """The type that a text such as ``"label int, score float"`` declares.

    Raises PySparkException for other texts. ``DataType.fromDDL`` is from Spark 4 on, and does this.
    """
    from pyspark.sql import types as sql

    return sql._parse_datatype_string(ddl)


def of_stage_metadata(spark: Any) -> Any:
    """What reads and writes the metadata of stages in ``pyspark.ml``: the SparkSession, before
    Spark 4 its SparkContext."""
    return spark if number_of(spark.version) >= _STAGES_BY_SESSION else spark.sparkContext


def cancel_jobs(sc: Any, group: str) -> None:
    """Cancels the jobs of a group, and from Spark 4 on also those that it would still start."""
    if number_of(sc.version) >= _CANCELS_FUTURE_JOBS:
        sc._jsc.sc().cancelJobGroupAndFutureJobs(group)
    else:
        sc.cancelJobGroup(group)


def counts_gpus_of_profiles(version: str) -> bool:
    """Whether the slots of an executor are counted by the GPUs of a task's own profile, and not by
    those of the application's other tasks."""
    return number_of(version) >= _COUNTS_GPUS_OF_PROFILES


def has_python_data_sources(version: str) -> bool:
    """Whether formats for Spark can be written in Python."""
    return number_of(version) >= _PYTHON_DATA_SOURCES


def place_of_barrier() -> Any:
    """Where the tasks of this worker's barrier stage meet: a port, and from Spark 4.1 on the path
    of a socket, too."""
    from pyspark import BarrierTaskContext

    known = vars(BarrierTaskContext)
    return known["_conn_info"] if "_conn_info" in known else known["_port"]


def broadcasts() -> dict[int, Any]:
    """The broadcast variables of this worker by their numbers: where pyspark finds those of a
    program that it unpickles. Their module has moved with Spark 4."""
    from pyspark import Broadcast

    registry: dict[int, Any] = sys.modules[Broadcast.__module__]._broadcastRegistry
    return registry


def why_not_spark(version: str) -> str:
    """Why the jar's classes don't fit this Spark; "" when they do."""
    oldest, too_new = _OF_JAR
    if oldest <= number_of(version) < too_new:
        return ""
    return f"the jar of tfos needs Spark 3.5 or 4, and this is {version}"


def why_not_java(java: str) -> str:
    """Why the jar can't run on a Java of that ``java.specification.version``, such as 17 or 1.8; ""
    when it can."""
    if int(java.removeprefix("1.")) >= _JAVA_OF_JAR:
        return ""
    return f"the jar of tfos needs Java {_JAVA_OF_JAR} or newer, and Spark runs on Java {java}"
