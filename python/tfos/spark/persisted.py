"""Rows that Spark keeps for further epochs, where the nodes that could keep them may be lost."""

from __future__ import annotations

from typing import Any

from pyspark import StorageLevel

from tfos.spark.sources import is_frame

#: By what ``Cluster.train(cache=...)`` says.
_LEVELS = {"memory": StorageLevel.MEMORY_AND_DISK, "disk": StorageLevel.DISK_ONLY}


def keep(data: Any, cache: str) -> bool:
    """Has Spark keep a DataFrame's or RDD's rows once it computes them. False where the program
    has asked Spark to do so already: then it is not ours to end."""
    if level_of(data) != StorageLevel.NONE:
        return False
    data.persist(_LEVELS[cache])
    return True


def level_of(data: Any) -> StorageLevel:
    """How Spark keeps a DataFrame's or RDD's rows."""
    return data.storageLevel if is_frame(data) else data.getStorageLevel()
