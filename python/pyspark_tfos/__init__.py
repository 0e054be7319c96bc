"""Says what to do where a session of Spark 4.1 or newer does not know ``format("tfrecord")``.

Spark looks for data sources in packages whose names begin with ``pyspark_``, before it gives up on
a format. This one stands for the format until :func:`tfos.register_tfrecords` puts the real one in
its place, which needs a session's file system and settings. The jar's is found before any that is
written in Python.

Spark 4.0 lets nothing take its place (https://issues.apache.org/jira/browse/SPARK-51919), so it is
not there: then Spark itself says that it does not find the format.

Threads: one of a Python worker, which has nothing else of tfos.
"""

from __future__ import annotations

from typing import Any

from pyspark import __version__ as _of_spark
from pyspark.sql.datasource import DataSource


class FormatNotRegistered(Exception):
    """The session was not given the format."""


if not _of_spark.startswith("4.0."):

    class DefaultSource(DataSource):
        """What Spark makes instead of giving up. Owner: Spark.

        Raises :class:`FormatNotRegistered`.
        """

        def __init__(self, options: Any):
            raise FormatNotRegistered(
                'this session does not know format("tfrecord"): call '
                "tfos.register_tfrecords(spark) first, or bring the jar, whose path "
                "tfos.jar_path() returns, with spark.jars"
            )

        @classmethod
        def name(cls) -> str:
            """The name for ``format``."""
            return "tfrecord"
