"""Of which kind rows are that a program gives."""

from __future__ import annotations

from tfos.spark import sources


class FrameOfConnect:
    """As Spark 4.3 has it: each name is a column."""

    def mapInArrow(self): ...

    def __getattr__(self, name):
        return f"column {name}"


class Stream:
    def foreachRDD(self, feed): ...


def test_a_frame_is_a_frame_whatever_its_columns_are_called():
    frame = FrameOfConnect()
    assert sources.is_frame(frame)
    assert not sources.is_rdd(frame) and not sources.is_stream(frame)


def test_each_kind_is_told_from_the_others(spark):
    rdd = spark.sparkContext.parallelize([1])
    frame = spark.range(1).withColumnRenamed("id", "foreachRDD")
    for kind, rows in (("frame", frame), ("rdd", rdd), ("stream", Stream())):
        told = {name: getattr(sources, f"is_{name}")(rows) for name in ("frame", "rdd", "stream")}
        assert told == {name: name == kind for name in told}
