"""The JVM feeder: rows from the executors' JVMs to the nodes, without Python workers. It feeds
DataFrames, and RDDs whose rows Spark holds pickled.

The jar does it (:mod:`tfos.spark.jar`, tfos.internal.feed.FrameFeeder). Here is what the driver
needs to know of it: how to call it, and what its errors are in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import RDD

from tfos import errors

if TYPE_CHECKING:
    from tfos.feed.plan import FeedPlan


def train(
    frame: Any, plan: FeedPlan, names: list[str], decimals: str | None
) -> list[tuple[int, int]]:
    """Feeds all rows of ``frame`` in a Spark job: for each partition how many, and how many of them
    a second time. Raises what the Python feeder would."""
    feeder = frame.sparkSession.sparkContext._jvm.tfos.internal.feed.FrameFeeder
    return _counts(feeder.train, frame._jdf, plan.to_json().encode(), names, decimals == "float64")


def train_pickled(batches: RDD, plan: FeedPlan) -> list[tuple[int, int]]:
    """The same for an RDD of ``spark.jobs.pickled_batches``, whose batches are counted."""
    feeder = batches.ctx._jvm.tfos.internal.feed.PickledFeeder
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
        if cause.getClass().getName() == "tfos.internal.feed.FeedException":
            return getattr(errors, cause.error())(cause.getMessage())
        cause = cause.getCause()
    return None
