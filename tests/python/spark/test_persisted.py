"""Rows that Spark keeps for further epochs, without a cluster."""

from __future__ import annotations

import pytest
from pyspark import StorageLevel

from tfos.spark import persisted


@pytest.mark.parametrize(
    ("cache", "level"),
    [("memory", StorageLevel.MEMORY_AND_DISK), ("disk", StorageLevel.DISK_ONLY)],
)
@pytest.mark.parametrize("kind", ["frame", "rdd"])
def test_spark_keeps_what_it_did_not_keep_before(spark, kind, cache, level):
    data = spark.range(10) if kind == "frame" else spark.range(10).rdd
    assert persisted.keep(data, cache)
    assert persisted.level_of(data) == level
    assert not persisted.keep(data, "memory"), "the program has it kept already"
    assert persisted.level_of(data) == level
    data.unpersist()
