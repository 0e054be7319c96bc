"""Whether Spark gives the rows of a partition in the same order each time that it computes it.

Imports here are for the driver only.
"""

from __future__ import annotations

import re
from typing import Any

from tfos.spark.connect import is_connect
from tfos.spark.sources import is_frame

#: Above these, rows come in an order of their own.
_ORDERED = re.compile(r"\bSort \[|\bInMemoryTableScan\b|\bTakeOrderedAndProject\b")
#: Whichever part of a shuffle arrives first is read first.
_UNORDERED = re.compile(r"(?<!Broadcast)Exchange\b|\bSortMergeJoin\b|\bShuffledHashJoin\b")


def may_change(data: Any) -> bool:
    """Whether the rows of an RDD or DataFrame may come in another order, or with other values, when
    a partition is computed again: as Spark says, and as far as it knows. It does not know that a
    function sorts. What is kept, cached or as a checkpoint, stays as it is."""
    if is_frame(data):
        return not is_connect(data.sparkSession) and _frame_may_change(data)
    if data.is_cached or data.is_checkpointed:
        return False
    level = data._jrdd.rdd().outputDeterministicLevel().toString()
    return bool(level != "DETERMINATE")


def _frame_may_change(frame: Any) -> bool:
    """By the plan that Spark would begin with, from the root on; nothing runs for it."""
    for line in frame._jdf.queryExecution().executedPlan().toString().splitlines():
        if _UNORDERED.search(line):
            return True
        if _ORDERED.search(line):
            return False
    return False
