"""What ``Cluster.train`` does beyond feeding once: caches, validation, other orders, equal steps."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pyspark.sql import Row, functions

import tfos
from support.programs import nodes as programs
from support.programs import training
from support.spark.errors import SPARK_ERRORS
from support.waiting import wait_for
from tfos.cluster.training import plan_training
from tfos.errors import BadInputError
from tfos.feed.plan import Replay


def run(spark, tmp_path, feed, *, nodes=2, settings=None, **dataset):
    """{node: [[labels of each batch] of each pass]} of a program that reads ``passes`` passes."""
    arguments = {"dir": str(tmp_path), "batch": 4, "passes": 1, "queues": ["input"], **dataset}
    with tfos.run(
        spark, training.read_passes, nodes=nodes, args=arguments, **(settings or {})
    ) as cluster:
        feed(cluster)
    ledger = cluster.ledger()
    assert ledger.complaint() is None
    assert len(ledger.nodes) == nodes
    assert all(count.get("left", count["unread"]) == 0 for count in ledger.nodes.values())
    return {
        path.name.removeprefix("passes-"): json.loads(path.read_text())
        for path in pathlib.Path(tmp_path).glob("passes-*")
    }


def labels_of(passes):
    return [label for batches in passes for batch in batches for label in batch]


def frame_of(spark, count, partitions=4):
    return spark.range(0, count, 1, partitions).selectExpr("array(float(id), 1f) AS x", "id AS y")


def rdd_of(spark, count, partitions=4):
    return spark.sparkContext.parallelize(range(count), partitions).map(
        lambda n: ([float(n), 1.0], n)
    )


@pytest.mark.parametrize(
    ("make", "cache"),
    [
        pytest.param(frame_of, "memory", id="dataframe"),
        pytest.param(rdd_of, "disk", id="rdd", marks=pytest.mark.long),
    ],
)
def test_cached_epochs_repeat_what_each_node_got_without_spark(spark, tmp_path, make, cache):
    data = make(spark, 100)
    read = spark.sparkContext.accumulator(0)
    if make is rdd_of:
        data = data.map(lambda row: read.add(1) or row)
    else:
        counted = functions.udf(lambda y: read.add(1) or y, "long").asNondeterministic()
        data = data.withColumn("y", counted("y"))
    passes = run(spark, tmp_path, lambda c: c.train(data, epochs=3, cache=cache), passes=3)
    for of_node in passes.values():
        first, *later = [sorted(labels_of([batches])) for batches in of_node]
        assert first and all(epoch == first for epoch in later)
    assert sorted(labels_of(epochs[0] for epochs in passes.values())) == list(range(100))
    assert read.value == 100


def test_a_cache_beyond_its_memory_goes_to_files_in_the_given_directory(spark, tmp_path):
    directory = tmp_path / "files"
    directory.mkdir()
    passes = run(
        spark,
        tmp_path,
        lambda c: c.train(frame_of(spark, 1000), epochs=2, cache="memory"),
        passes=2,
        nodes=1,
        settings={"feed_cache_memory": 1, "feed_cache_directory": str(directory)},
    )
    (of_node,) = passes.values()
    assert sorted(labels_of(of_node)) == sorted(list(range(1000)) * 2)
    assert not list(directory.iterdir())


def test_rows_of_a_cached_epoch_also_come_again_through_next_batch(spark, tmp_path):
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=1, args=arguments) as cluster:
        cluster.train(spark.sparkContext.parallelize(range(50), 3), epochs=3, cache="memory")
    rows = pickle.loads((tmp_path / "rows-0").read_bytes())
    assert sorted(rows) == sorted(list(range(50)) * 3)


def train_on_what_breaks(spark, cluster):
    broken = spark.range(100, numPartitions=1).selectExpr("nullif(-1 - id, -81) AS id")
    with pytest.raises(BadInputError, match="column id has a null in row 80"):
        cluster.train(broken, epochs=5, cache="memory")


def train_and_interrupt(spark, cluster):
    """Stops it as Ctrl-C and a notebook do, while the node has rows and Spark reads the others."""
    rows = spark.sparkContext.parallelize(range(80), 2).map(
        lambda n: Row(id=-1 - n) if n < 40 or threading.Event().wait() else None
    )

    def interrupt():
        try:
            wait_for(lambda: cluster.status()[0].metrics.get("rows", 0) > 0, "a row in the node")
        finally:  # Or the training would wait for ever for the rows that don't come.
            os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        interrupting = thread.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            cluster.train(rows, epochs=5, cache="memory")
        interrupting.result()


@pytest.mark.parametrize(
    ("cut_short", "cache"),
    [
        pytest.param(train_on_what_breaks, "memory", id="error-memory"),
        pytest.param(train_on_what_breaks, None, id="error-None"),
        pytest.param(
            train_and_interrupt,
            "memory",
            marks=[
                pytest.mark.failure("Ctrl-C", "caching"),
                pytest.mark.failure("notebook interrupt", "caching"),
            ],
            id="interrupt-memory",
        ),
    ],
)
def test_what_an_interrupted_train_had_kept_is_not_replayed(
    spark, tmp_path, ctrl_c, cut_short, cache
):
    """Neither as if it were the whole, nor before the rows of the next train."""
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=1, args=arguments) as cluster:
        cut_short(spark, cluster)
        cluster.train(spark.range(50, numPartitions=3), epochs=2, cache=cache)
    ids = [int(row.id) for row in pickle.loads((tmp_path / "rows-0").read_bytes())]
    fragment, whole = [n for n in ids if n < 0], [n for n in ids if n >= 0]
    assert sorted(whole) == sorted(2 * [*range(50)])
    assert fragment and len(set(fragment)) == len(fragment), "once, as a part of the epoch"


def count_partitions_remembered(ctx):
    """Reads the feed to its end, and says how many partitions the node remembers then."""
    rows = 0
    while not ctx.feed.should_stop():
        rows += len(ctx.feed.next_batch(10))
    known = ctx.feed._source.server.counters()["known_partitions"]
    pathlib.Path(ctx.args, f"known-{ctx.node_id}").write_text(f"{rows} {known}")


class Stream:
    """A DStream whose intervals come when a test says so."""

    def foreachRDD(self, feed):
        self.feed = feed


@pytest.mark.long
def test_nodes_forget_what_came_of_jobs_that_have_ended(spark, tmp_path):
    """Else a stream, which ends no epoch, would fill them."""
    sc = spark.sparkContext
    data = sc.parallelize(range(50), 4)
    with tfos.run(spark, count_partitions_remembered, nodes=2, args=str(tmp_path)) as cluster:
        stream = Stream()
        cluster.train(stream)
        for interval in (data, sc.emptyRDD(), data):
            stream.feed(interval)
        with pytest.raises(SPARK_ERRORS, match="division by zero"):
            cluster.train(data.map(lambda n: n / 0))
        with pytest.raises(SPARK_ERRORS, match="division by zero"):
            stream.feed(data.map(lambda n: n / 0))
        cluster.train(data, epochs=2)
        stream.feed(data)
    said = [path.read_text().split() for path in tmp_path.glob("known-*")]
    assert sum(int(rows) for rows, _ in said) == 5 * 50
    assert [known for _, known in said] == ["0", "0"]


@pytest.mark.parametrize("cache", [None, pytest.param("memory", marks=pytest.mark.long)])
def test_validation_follows_each_epoch(spark, tmp_path, cache):
    passes = run(
        spark,
        tmp_path,
        passes=3,
        queues=["input", "validation"],
        feed=lambda c: c.train(
            frame_of(spark, 60),
            epochs=3,
            cache=cache,
            validation=frame_of(spark, 20).withColumn("y", -functions.col("y")),
        ),
    )
    for epoch in range(3):
        train = labels_of(of_node[2 * epoch] for of_node in passes.values())
        validation = labels_of(of_node[2 * epoch + 1] for of_node in passes.values())
        assert sorted(train) == list(range(60))
        assert sorted(validation) == list(range(-19, 1))


def test_a_queue_that_alone_is_fed_says_itself_what_its_rows_hold(spark, tmp_path):
    passes = run(
        spark,
        tmp_path,
        queues=["validation"],
        feed=lambda c: c.train(frame_of(spark, 20), queue="validation"),
    )
    assert sorted(labels_of(batch for (batch,) in passes.values())) == list(range(20))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(frame_of, id="dataframe"),
        pytest.param(rdd_of, id="rdd", marks=pytest.mark.long),
    ],
)
def test_shuffled_epochs_have_orders_of_their_own_and_a_seed_repeats_them(spark, tmp_path, make):
    def feed(cluster):
        for seed in (7, 7, 8):
            cluster.train(make(spark, 200, 1), epochs=2, shuffle=seed)

    (passes,) = run(spark, tmp_path, feed, nodes=1, passes=6).values()
    orders = [labels_of([batches]) for batches in passes]
    assert all(sorted(order) == list(range(200)) for order in orders)
    assert orders[2:4] == orders[0:2]
    assert len({tuple(order) for order in orders}) == 4
    assert list(range(200)) not in orders


def test_an_epoch_that_was_not_fed_to_its_end_goes_on_with_the_next(spark, tmp_path):
    def feed(cluster):
        with pytest.raises(SPARK_ERRORS, match="division by zero"):
            cluster.train(spark.sparkContext.parallelize(range(3), 1).map(lambda n: n / 0))
        cluster.train(rdd_of(spark, 20))

    (passes,) = run(spark, tmp_path, feed, nodes=1).values()
    assert sorted(labels_of(passes)) == list(range(20))


@pytest.mark.parametrize(
    ("remainder", "partitions"), [("drop", 1), pytest.param("pad", 7, marks=pytest.mark.long)]
)
def test_all_nodes_make_as_many_full_batches(spark, tmp_path, partitions, remainder):
    passes = run(
        spark,
        tmp_path,
        nodes=2,
        passes=2,
        remainder=remainder,
        feed=lambda c: c.train(frame_of(spark, 203, partitions), epochs=2),
    )
    assert len(passes) == 2
    for epoch in range(2):
        batches = [of_node[epoch] for of_node in passes.values()]
        assert len(batches[0]) == len(batches[1]) > 0
        labels = labels_of(batches)
        assert len(set(labels)) == len(labels)
        if remainder == "pad":
            assert sorted(labels) == list(range(203))
        else:
            assert all(len(batch) == 4 for of_node in batches for batch in of_node)


def test_rows_that_all_came_in_one_chunk_are_dealt_to_all_nodes(spark, tmp_path):
    # A list, which Spark holds as one pickled batch. The program opens it to learn the columns.
    rows = [([float(n), 1.0], n) for n in range(1000)]
    passes = run(
        spark,
        tmp_path,
        nodes=2,
        passes=2,
        batch=100,
        remainder="drop",
        feed=lambda c: c.train(spark.sparkContext.parallelize(rows, 1), epochs=2),
    )
    assert [[len(of_epoch) for of_epoch in of_node] for of_node in passes.values()] == [[5, 5]] * 2
    for epoch in range(2):
        assert sorted(labels_of(of_node[epoch] for of_node in passes.values())) == list(range(1000))


def test_one_node_without_any_row_pads_when_it_knows_the_columns(spark, tmp_path):
    passes = run(
        spark,
        tmp_path,
        nodes=2,
        remainder="pad",
        spec=True,
        feed=lambda c: c.train(frame_of(spark, 3, 1)),
    )
    counts = [len(of_node[0]) for of_node in passes.values()]
    assert counts == [1, 1]
    assert sorted(labels_of(epochs[0] for epochs in passes.values())) == [0, 1, 2]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (dict(epochs=0), "epochs"),
        (dict(cache="tape"), "'tape'"),
        (dict(cache="memory", epochs=65_538), "65,537 epochs at most, not 65,538"),
        (dict(validation=[1]), "a DataFrame, an RDD or a DStream of Spark, not list"),
        (dict(validation=np.zeros(3)), "a DStream of Spark, not numpy.ndarray"),
    ],
)
def test_arguments_that_cannot_be(spark, how, message):
    arguments = {"epochs": 1, "shuffle": False, "cache": None, **how}
    sources = {
        "input": spark.range(3),
        **({"validation": v} if (v := arguments.pop("validation", None)) is not None else {}),
    }
    with pytest.raises(BadInputError, match=message):
        plan_training(sources, **arguments)


def test_validation_has_to_look_like_the_data(spark):
    frame = spark.range(3)
    with pytest.raises(BadInputError, match="id int instead of id bigint"):
        plan_training(
            {"input": frame, "validation": frame.selectExpr("int(id) AS id")}, 1, False, None
        )
    with pytest.raises(BadInputError, match="both be DataFrames"):
        plan_training({"input": frame, "validation": frame.rdd}, 1, False, None)


def test_what_is_fed_how_often(spark):
    sources = {"input": spark.range(3)}
    plain = plan_training(sources, 3, False, None)
    assert (plain.jobs, plain.replay, plain.seed_of_job(1)) == (3, Replay(), 0)
    assert plan_training(sources, 65_537, False, "memory").replay.epochs == 1 << 16
    cached = plan_training(sources, 3, 5, "disk")
    assert (cached.jobs, cached.replay) == (1, Replay("disk", 2, 5))
    kept = plan_training(sources, 3, 5, "disk", may_lose_nodes=True)
    assert (kept.jobs, kept.replay, kept.kept_by_spark) == (3, Replay(), "disk")
    shuffled = plan_training(sources, 3, True, None)
    seeds = {shuffled.seed_of_job(job) for job in range(3)}
    assert len(seeds) == 3 and 0 not in seeds


@pytest.mark.parametrize("remainder", ["drop", pytest.param("pad", marks=pytest.mark.long)])
def test_nodes_train_in_step_through_every_epoch(spark, tmp_path, remainder):
    # Over three partitions the nodes get different numbers of rows.
    arguments = {"dir": str(tmp_path), "remainder": remainder, "epochs": 3}
    with tfos.run(spark, training.train_in_step, nodes=2, args=arguments) as cluster:
        cluster.train(frame_of(spark, 103, 3), epochs=3)
    first, second = (json.loads((tmp_path / f"fit-{node}").read_text()) for node in range(2))
    assert first == second  # also the weights
    # How evenly so few rows are dealt out is a matter of which task begins when.
    assert len(first["steps"]) == 3 and all(steps >= 6 for steps in first["steps"])
    assert cluster.ledger().complaint() is None
