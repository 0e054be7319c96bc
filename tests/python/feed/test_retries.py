"""Tasks that Spark runs again: they skip what was fed before, if the rows are still the same."""

from __future__ import annotations

import secrets

import pyarrow
import pytest
from pyspark import StorageLevel
from pyspark.sql import functions

from tfos.cluster.feed.run import warn_of_order
from tfos.errors import FeedError
from tfos.feed import jvm
from tfos.feed.plan import FeedPlan, Replay
from tfos.feed.tasks import ArrowTrainFeeder, TrainFeeder, _with_more
from tfos.spark import row_order
from tfos.spark.jobs import pickled_batches

ROWS = 5000


@pytest.fixture
def plan(make_nodes):
    """For one job, whose tasks may be run more than once."""
    nodes = make_nodes(2)
    return FeedPlan(
        feed_key=nodes.key,
        ask_key=nodes.key,
        endpoints=nodes.endpoints(),
        coordinator=("127.0.0.1", 1),
        job_id=secrets.token_bytes(16),
        queue="input",
        timeout=60,
        region_bytes=1 << 20,
        chunk_bytes=4096,
        epoch=0,
        encrypt="auto",
        pickle=True,
        pickled=False,
        replay=Replay(),
    )


def feed_rows(spark, plan, rows):
    """Python workers feed Python's rows."""
    rdd = spark.sparkContext.parallelize(list(rows), 1)
    return rdd.mapPartitionsWithIndex(TrainFeeder(plan)).collect()


def feed_odd_rows(spark, plan, rows):
    """The same for rows that make no columns."""
    return feed_rows(spark, plan, [(row, {row: "x"} if row % 2 else None) for row in rows])


def feed_pickled(spark, plan, rows):
    """The executors' JVMs feed what Spark holds pickled."""
    rdd = spark.sparkContext.parallelize(list(rows), 1)
    return jvm.train_pickled(pickled_batches(rdd), plan)


def frame_of(spark, rows):
    return spark.createDataFrame([(row, float(row)) for row in rows], "id long, x double").coalesce(
        1
    )


def feed_frame_by_jvm(spark, plan, rows):
    return jvm.train(frame_of(spark, rows), plan, ["id", "x"], None)


def feed_frame_by_python(spark, plan, rows):
    feeder = ArrowTrainFeeder(plan, ["id", "x"], None)
    counts = frame_of(spark, rows).mapInArrow(feeder, ArrowTrainFeeder.SCHEMA).collect()
    return [tuple(count) for count in counts]


FEEDS = [feed_rows, feed_odd_rows, feed_pickled, feed_frame_by_jvm, feed_frame_by_python]


@pytest.mark.failure("task retry", "feeding")
@pytest.mark.parametrize("feed", FEEDS)
def test_a_task_that_is_repeated_feeds_nothing_twice(spark, plan, feed):
    first = feed(spark, plan, range(ROWS))
    assert feed(spark, plan, range(ROWS)) == first


@pytest.mark.failure("task retry", "feeding")
@pytest.mark.parametrize("feed", FEEDS)
def test_rows_that_come_in_another_order_are_found_out(spark, plan, feed):
    feed(spark, plan, range(ROWS))
    swapped = [*range(ROWS - 2), ROWS - 1, ROWS - 2]
    with pytest.raises(FeedError) as raised:
        feed(spark, plan, swapped)
    assert "are not those that an earlier attempt at this task fed" in str(raised.value)
    assert "spark.tfos.feed.checkRetries=false" in str(raised.value)


def test_a_chunk_may_lie_in_several_record_batches():
    batches = [pyarrow.RecordBatch.from_pydict({"id": range(n, n + 3)}) for n in (0, 3, 6)]
    rest = iter(batches[1:])
    joined, left = _with_more(batches[0].slice(1), rest, 4)
    assert joined.column(0).to_pylist() == [1, 2, 3, 4]
    assert left.column(0).to_pylist() == [5]
    joined, left = _with_more(left, rest, 100)
    assert joined.column(0).to_pylist() == [5, 6, 7, 8]
    assert left.num_rows == 0, "no more than there is"


def test_spark_says_which_rows_may_change(spark):
    rdd = spark.sparkContext.range(100, numSlices=2)
    assert not row_order.may_change(rdd)
    assert not row_order.may_change(rdd.map(lambda row: row + 1))
    shuffled = rdd.map(lambda row: (row % 7, row)).groupByKey()
    assert row_order.may_change(shuffled)
    assert row_order.may_change(rdd.repartition(3))
    assert not row_order.may_change(shuffled.persist(StorageLevel.DISK_ONLY))
    frame = spark.range(100)
    assert not row_order.may_change(frame.withColumn("x", functions.col("id") * 2))
    assert row_order.may_change(frame.repartition(3))
    assert row_order.may_change(frame.groupBy(functions.col("id") % 7).count())
    assert not row_order.may_change(frame.repartition(3).orderBy("id"))
    assert not row_order.may_change(frame.repartition(3).cache())


def test_the_driver_warns_of_rows_that_may_change(spark, caplog):
    rdd = spark.sparkContext.range(10, numSlices=2)
    warn_of_order(rdd)
    assert not caplog.messages
    warn_of_order(rdd.repartition(3))
    [message] = caplog.messages
    assert "the same order" in message
    assert "persist() or checkpoint()" in message
