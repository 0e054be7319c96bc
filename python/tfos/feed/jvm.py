"""The JVM feeder: rows from the executors' JVMs to the nodes, without Python workers. It feeds
DataFrames, and RDDs whose rows Spark holds pickled.

The jar does it (:mod:`tfos.spark.jar`, tfos.internal.feed.FrameFeeder). Here is what the driver
needs to know of it: how to call it. Its errors are those of Python workers
(:mod:`tfos.spark.failures`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD

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
    return [(items, moved) for items, moved in json.loads(feed(*arguments))]
