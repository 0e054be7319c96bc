"""Clusters that go on without a node that was lost, and what becomes of its rows."""

from __future__ import annotations

import collections
import os
import pathlib
import signal

import numpy as np
import pytest

import tfos
from support.executor_jvm import executor_of
from tfos.errors import BadInputError, NodeFailedError

ROWS = 20_000
BATCH = 50


def keep(ctx, rows):
    """Writes the rows' numbers down before the node can die."""
    with open(pathlib.Path(ctx.args["dir"], f"rows-{ctx.node_id}"), "a") as file:
        file.writelines(f"{row}\n" for row in rows)


def kept(directory):
    """How often each row was read."""
    counts = collections.Counter()
    for path in pathlib.Path(directory).glob("rows-*"):
        counts.update(map(int, path.read_text().split()))
    return counts


def die_after(ctx, batches):
    if ctx.node_id == ctx.args["victim"] and batches == ctx.args["batches"]:
        os.kill(os.getpid(), signal.SIGKILL)


def read_objects(ctx):
    batches = 0
    while not ctx.feed.should_stop():
        keep(ctx, [row[1] for row in ctx.feed.next_batch(BATCH)])
        die_after(ctx, batches := batches + 1)


def read_columns(ctx):
    feed = ctx.data_feed(input_mapping={"0": "features", "1": "label"})
    batches = 0
    while not feed.should_stop():
        batch = feed.next_batch(BATCH)
        keep(ctx, batch["label"].tolist() if batch else [])
        die_after(ctx, batches := batches + 1)


def read_dataset(ctx):
    batches = 0
    while True:
        before = batches
        for _, label in ctx.dataset(BATCH):
            keep(ctx, label.numpy().tolist())
            die_after(ctx, batches := batches + 1)
        if batches == before:
            return


def feed(spark, program, rows, tmp_path, *, victim=1, batches=20, epochs=1, nodes=2):
    arguments = {"dir": str(tmp_path), "victim": victim, "batches": batches}
    with tfos.run(spark, program, nodes=nodes, args=arguments, max_lost_nodes=1) as cluster:
        cluster.train(rows, epochs=epochs)
    states = [node.state for node in cluster.status()]
    assert states == ["lost" if node == victim else "done" for node in range(nodes)]
    return cluster


def pickled_rdd(spark):
    return spark.sparkContext.parallelize([([0.5] * 20, n) for n in range(ROWS)], 4)


def computed_rdd(spark):
    return spark.sparkContext.range(ROWS, numSlices=4).map(lambda n: (np.zeros(20), n))


def frame(spark):
    return spark.range(ROWS, numPartitions=4).selectExpr("array(0.5D, 1.5D) features", "id label")


@pytest.mark.failure("node killed", "feeding")
@pytest.mark.parametrize(
    "program, make",
    [
        (read_objects, pickled_rdd),
        pytest.param(read_objects, computed_rdd, marks=pytest.mark.long),
        (read_columns, pickled_rdd),
        pytest.param(read_dataset, pickled_rdd, marks=pytest.mark.long),
        pytest.param(read_dataset, computed_rdd, marks=pytest.mark.long),
        (read_dataset, frame),
    ],
    ids=lambda value: value.__name__,
)
def test_what_a_killed_node_had_not_read_goes_to_another(spark, tmp_path, program, make):
    cluster = feed(spark, program, make(spark), tmp_path)
    counts = kept(tmp_path)
    assert set(counts.values()) == {1}, "a row came twice"
    # Those that waited in the node for the rest of a batch when it died.
    assert ROWS - BATCH < len(counts) <= ROWS
    assert cluster.ledger().moved > 0
    first, survivor, dead = cluster.ledger().lines()
    assert "moved from lost nodes" in first
    assert "left unread" not in survivor
    assert dead.endswith(("lost (as of its last word)", "lost before its first word"))


def echo(ctx):
    batches = 0
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(BATCH)
        die_after(ctx, batches := batches + 1)
        if rows:
            ctx.feed.batch_results([row[1] for row in rows])


@pytest.mark.failure("node killed", "inference")
@pytest.mark.parametrize("victim", [1, None])
def test_inference_goes_on_without_a_lost_node(spark, tmp_path, victim):
    arguments = {"dir": str(tmp_path), "victim": victim, "batches": 20}
    with tfos.run(spark, echo, nodes=2, args=arguments, max_lost_nodes=1) as cluster:
        assert cluster.inference(computed_rdd(spark)).collect() == list(range(ROWS))
    assert [node.state == "lost" for node in cluster.status()] == [False, victim == 1]


def test_later_epochs_are_fed_to_the_others(spark, tmp_path):
    feed(spark, read_objects, computed_rdd(spark), tmp_path, epochs=3)
    counts = kept(tmp_path)
    assert 3 * ROWS - BATCH < counts.total() <= 3 * ROWS
    assert max(counts.values()) == 3


def kill_executor(ctx):
    """Kills the victim's executor; its agent and the Spark tasks feeding there die with it."""
    batches = 0
    while not ctx.feed.should_stop():
        keep(ctx, [row[1] for row in ctx.feed.next_batch(BATCH)])
        batches += 1
        if ctx.node_id == ctx.args["victim"] and batches == ctx.args["batches"]:
            executor_of().kill()
            signal.pause()  # its agent ends it


@pytest.mark.failure("executor killed", "feeding")
def test_no_row_is_missing_when_an_executor_dies(spark, tmp_path):
    """Its tasks are run again, and nobody knows what they had brought to the node that died with
    them: rows may come twice."""
    feed(spark, kill_executor, computed_rdd(spark), tmp_path)
    assert len(kept(tmp_path)) == ROWS


def test_a_chief_that_is_killed_ends_the_cluster(spark, tmp_path):
    with pytest.raises(NodeFailedError, match=r"worker:0 .* was killed by SIGKILL"):
        feed(spark, read_objects, pickled_rdd(spark), tmp_path, victim=0)


def fail_in_the_middle(ctx):
    ctx.feed.next_batch(BATCH)
    if ctx.node_id == ctx.args["victim"]:
        raise ValueError("a mistake of the program")
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(BATCH)


def test_a_program_that_fails_ends_the_cluster(spark, tmp_path):
    with pytest.raises(NodeFailedError, match="a mistake of the program"):
        feed(spark, fail_in_the_middle, pickled_rdd(spark), tmp_path)


def train_in_step(ctx):
    """Raises what it hears of either way to do so."""
    from tfos import collective

    heard = []
    for way in (lambda: ctx.dataset(BATCH, remainder="drop"), collective.size):
        try:
            way()
        except BadInputError as error:
            heard.append(str(error))
    raise ValueError(" ".join(heard))


def test_what_does_not_go_with_lost_nodes_is_said(spark, tmp_path):
    with pytest.raises(BadInputError, match="max_lost_nodes is for nodes that Spark feeds"):
        tfos.run(spark, read_objects, nodes=1, input_mode="tensorflow", max_lost_nodes=1)
    both = (
        "remainder='drop' is for nodes that train in step, .* "
        "ctx.distribute and tfos.collective are for nodes that train in step, "
    )
    with pytest.raises(NodeFailedError, match=both):
        with tfos.run(spark, train_in_step, nodes=2, max_lost_nodes=1) as cluster:
            cluster.train(pickled_rdd(spark))
