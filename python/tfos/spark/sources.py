"""What a program gives to Spark jobs of tfos as rows: of which kind it is, and what it is called.

The type tells the kind. That an object has a method tells nothing: it may be a column of that name.
A DataFrame of Spark Connect has a column of any name from Spark 4.2 on, until somebody looks.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from pyspark.rdd import PipelinedRDD

from tfos.spark.connect import is_connect

logger = logging.getLogger(__name__)

#: A table, a view or what ``DataFrame.alias`` has named, in a plan as Spark prints it.
_NAMED = re.compile(r"^[\s:+|-]*SubqueryAlias (\S+)", re.MULTILINE)
#: Above it, the rows of two plans come together.
_BRANCH = re.compile(r"^[\s:]*:-", re.MULTILINE)
_LONGEST = 60


def is_frame(data: Any) -> bool:
    """Whether it is a DataFrame."""
    return hasattr(type(data), "mapInArrow")


def is_rdd(data: Any) -> bool:
    """Whether it is an RDD."""
    return hasattr(type(data), "getNumPartitions")


def is_stream(data: Any) -> bool:
    """Whether it is a DStream."""
    return hasattr(type(data), "foreachRDD")


def name_of(data: Any, otherwise: str) -> str:
    """The name of an RDD, or that of the one table or view that a DataFrame is made of, or that its
    ``alias`` has given it. ``otherwise``: for what has no name, or several. Nothing runs for it."""
    try:
        name = _of_frame(data) if is_frame(data) else _of_rdd(data)
    except Exception:  # Spark's internals: a title is worth less than the training.
        logger.debug("the rows have no name on Spark's pages", exc_info=True)
        name = ""
    return (name or otherwise)[:_LONGEST]


def _of_frame(frame: Any) -> str:
    if is_connect(frame.sparkSession):  # It would ask the server.
        return ""
    plan = str(frame._jdf.queryExecution().analyzed().toString())
    named = _NAMED.search(plan)
    if named is None or _BRANCH.search(plan[: named.start(1)]):
        return ""
    return named[1].rpartition(".")[2].strip("`")


def _of_rdd(rdd: Any) -> str:
    # To ask one that Python computes would have Spark prepare that already. A stream has no name.
    unasked = isinstance(rdd, PipelinedRDD) and rdd._jrdd_val is None
    if unasked or not is_rdd(rdd):
        return ""
    return str(rdd.name() or "").rstrip("/").rpartition("/")[2]  # Of files, it is their path.
