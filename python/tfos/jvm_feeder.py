"""The JVM feeder: rows from the executors' JVMs to the nodes, without Python workers. It feeds
DataFrames, and RDDs whose rows Spark holds pickled.

The jar does it (``tfos.jar_path()``, tfos.internal.FrameFeeder); here is what the driver has to
know of it: whether it can be used, how to call it, and what its errors are in Python.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable

from py4j.protocol import Py4JJavaError
from pyspark import RDD

from tfos import __version__, errors

if TYPE_CHECKING:
    from tfos.feeding import FeedPlan

#: Major and minor version from which on Spark has the classes that the jar was built for.
_OLDEST_SPARK = (4, 1)
#: Where Spark's configuration names the jars that executors have.
_JARS_OF_EXECUTORS = ("spark.jars", "spark.yarn.dist.jars", "spark.executor.extraClassPath")


def obstacle(sc: Any) -> str:
    """Why rows can't be fed by the JVM feeder; "" when they can."""
    from py4j.java_gateway import JavaClass

    feeder = sc._jvm.tfos.internal.FrameFeeder
    if not isinstance(feeder, JavaClass):
        return ("the jar of tfos is not on the driver's class path: start Spark with "
                "--jars or spark.jars and the path that tfos.jar_path() gives")
    found = tuple(int(number) for number in sc.version.split(".")[:2])
    if found < _OLDEST_SPARK or found[0] != _OLDEST_SPARK[0]:
        return f"the jar of tfos needs Spark 4, from 4.1 on, and this is {sc.version}"
    version = feeder.version()
    if version != __version__:
        return f"the jar of tfos on the class path is version {version}, and the package {__version__}"
    return _missing_on_executors(sc, feeder.location())


def _missing_on_executors(sc: Any, jar: str) -> str:
    """Why executors won't have the ``jar`` that the driver has; "" when nothing speaks against it."""
    directory, name = os.path.split(jar)
    in_driver = sc.master.startswith("local") and not sc.master.startswith("local-cluster")
    conf = sc.getConf()
    named = " ".join([sc._jsc.sc().listJars().mkString(" "),
                      *(conf.get(key, "") for key in _JARS_OF_EXECUTORS)])
    if in_driver or name in named or f"{directory}/*" in named:
        return ""
    spark = sc._jvm.java.lang.Class.forName("org.apache.spark.SparkContext")
    if directory == os.path.dirname(spark.getProtectionDomain().getCodeSource().getLocation().getPath()):
        return ""  # beside Spark's own jars
    return (f"the driver has {jar}, and nothing says that the executors have it too: name it in "
            "spark.jars (--jars) or spark.executor.extraClassPath")


def train(frame: Any, plan: "FeedPlan", names: list[str], decimals: str | None
          ) -> list[tuple[int, int]]:
    """Feeds all rows of ``frame`` in a Spark job: for each partition how many, and how many of them
    a second time. Raises what the Python feeder would."""
    feeder = frame.sparkSession.sparkContext._jvm.tfos.internal.FrameFeeder
    return _counts(feeder.train, frame._jdf, plan.to_json().encode(), names, decimals == "float64")


def train_pickled(batches: RDD, plan: "FeedPlan") -> list[tuple[int, int]]:
    """The same for an RDD of ``spark_job.pickled_batches``, whose batches are counted."""
    feeder = batches.ctx._jvm.tfos.internal.PickledFeeder
    return _counts(feeder.train, batches._jrdd, plan.to_json().encode())


def _counts(feed: Callable[..., str], *arguments: Any) -> list[tuple[int, int]]:
    try:
        counts = feed(*arguments)
    except Py4JJavaError as error:
        explained = _feed_error(error)
        if explained is None:
            raise
        raise explained from error
    return [(items, moved) for items, moved in json.loads(counts)]


def _feed_error(error: Py4JJavaError) -> errors.TfosError | None:
    """The error of tfos that made a Spark job fail; None when it was another one."""
    cause = error.java_exception
    while cause is not None:
        if cause.getClass().getName() == "tfos.internal.FeedException":
            return getattr(errors, cause.error())(cause.getMessage())
        cause = cause.getCause()
    return None
