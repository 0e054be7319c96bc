"""``nodes=(least, most)`` with rows that Spark feeds: those of a lost node go to the others, where
nobody comes in its place."""

from __future__ import annotations

import collections
import os
import pathlib
import signal

import pytest
from pyspark.sql import functions

import tfos
from support.programs.given_rows import with_notes
from tfos.errors import BadInputError, NodeFailedError

THREE_EXECUTORS = "local-cluster[3,2,1024]"

ROWS = 1500
BATCH = 8
EPOCHS = 2
#: What makes the rows of an epoch more than the nodes' memory can hold, with SMALL of it.
PAYLOAD = b"p" * 1024
SMALL = "64k"
#: Noted for a row of zeros.
ADDED = -1


def train_by_fit(ctx):
    """Fits a model, and writes down which rows it was given: a line for each step of an epoch."""
    import tensorflow as tf

    import keras

    remainder = ctx.args["remainder"]
    ids = ctx.dataset(BATCH, features="id", remainder=remainder)
    if remainder == "pad":
        ids = ids.map(lambda ids, is_row: tf.where(is_row > 0, ids, ADDED))

    with open(pathlib.Path(ctx.args["directory"]) / f"node-{ctx.node_id}", "w") as given:

        class Watch(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                print(f"epoch {epoch}", file=given, flush=True)
                self.epoch = epoch

            def on_train_batch_begin(self, batch, logs=None):
                if ctx.rank == ctx.args["victim"] and [self.epoch, batch] == ctx.args["killed_in"]:
                    os.kill(os.getpid(), signal.SIGKILL)

        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
        model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
        model.fit(
            with_notes(ids, given, ROWS),
            epochs=EPOCHS,
            verbose=0,
            callbacks=[Watch()],
        )
    weights = [weights.tolist() for weights in model.get_weights()]
    (pathlib.Path(ctx.args["directory"]) / f"weights-{ctx.node_id}").write_text(str(weights))


def given_in_epochs(directory):
    """By node, a list of the ids for each epoch."""
    given = {}
    for path in directory.glob("node-*"):
        epochs = given[int(path.name.removeprefix("node-"))] = []
        for line in path.read_text().splitlines():
            if line.startswith("epoch"):
                epochs.append([])
            else:
                epochs[-1] += map(int, line.split())
    return given


def check_end(ended, missing, remainder):
    """What ``remainder`` allows at the end of an epoch of which nodes were given these ids."""
    less_than_a_batch_each = BATCH * len(ended) - 1
    added = sum(ids.count(ADDED) for ids in ended)
    assert added <= (less_than_a_batch_each if remainder == "pad" else 0)
    assert missing <= (less_than_a_batch_each if remainder == "drop" else 0)
    counts = {len(ids) for ids in ended}
    if remainder is None:  # "join"
        assert max(counts) - min(counts) < BATCH
    else:
        (rows,) = counts
        assert rows % BATCH == 0


# Each time the end of the epoch can't have been told when the node is lost: from then on, what the
# node had left would not be fed again.
@pytest.mark.failure("node killed", "training")
@pytest.mark.parametrize(
    ("victim", "killed_in", "memory", "kind", "cache", "remainder"),
    [
        # All rows are in the nodes' memory, and nobody has made a step that could be its last one.
        (1, [0, 0], "256m", "frame", None, None),
        pytest.param(1, [0, 0], "256m", "frame", None, "drop", marks=pytest.mark.long),
        pytest.param(2, [0, 5], "256m", "frame", None, "pad", marks=pytest.mark.long),
        # Spark feeds: most rows of the epoch have no room yet.
        pytest.param(2, [1, 7], SMALL, "rdd", "memory", None, marks=pytest.mark.long),
        pytest.param(2, [1, 7], SMALL, "rdd", "memory", "pad", marks=pytest.mark.long),
        pytest.param(0, [0, 20], SMALL, "frame", "disk", None, marks=pytest.mark.long),
        pytest.param(0, [0, 20], SMALL, "frame", "disk", "drop", marks=pytest.mark.long),
    ],
)
def test_what_a_lost_node_had_goes_to_the_others(
    spark_on, leftovers, tmp_path, victim, killed_in, memory, kind, cache, remainder
):
    spark = spark_on(THREE_EXECUTORS)
    payload = memory == SMALL
    rows = spark.range(ROWS).repartition(6).sortWithinPartitions("id").localCheckpoint()
    if payload:
        rows = rows.withColumn("payload", functions.lit(PAYLOAD))
    data = rows if kind == "frame" else rows.rdd.map(lambda row: row.asDict())
    args = {
        "directory": str(tmp_path),
        "victim": victim,
        "killed_in": killed_in,
        "remainder": remainder,
    }
    with tfos.run(
        spark, train_by_fit, nodes=(2, 3), args=args, feed_memory=memory, late_nodes=False
    ) as cluster:
        cluster.train(data, epochs=EPOCHS, cache=cache)
    states = {node.node_id: node.state for node in cluster.status()}
    assert states == {node: "lost" if node == victim else "done" for node in range(3)}
    weights = [path.read_text() for path in tmp_path.glob("weights-*")]
    assert len(weights) == 2 and weights[0] == weights[1]
    ledger = cluster.ledger()
    given = given_in_epochs(tmp_path)
    lost = given.pop(victim)
    assert len(lost) in (1, EPOCHS)
    for epoch in range(EPOCHS):
        by_others = collections.Counter(i for node in given.values() for i in node[epoch])
        del by_others[ADDED]
        twice = {i for i, count in by_others.items() if count > 1}
        assert not twice, "the nodes that are left share the rows"
        by_victim = lost[epoch] if epoch < len(lost) else []
        missing = set(range(ROWS)) - by_others.keys() - set(by_victim)
        ended = [node[epoch] for node in given.values()]
        if epoch + 1 < len(lost):
            ended.append(by_victim)
        check_end(ended, len(missing), remainder)
    # Spark keeps rows of RDDs as pickled batches.
    assert ledger.batches or ledger.read == ROWS * EPOCHS
    assert ledger.moved > 0
    assert ledger.lost == {f"worker:{victim}"}


def run_two(spark, tmp_path):
    args = {"directory": str(tmp_path), "victim": -1, "killed_in": [0, 0], "remainder": None}
    return tfos.run(spark, train_by_fit, nodes=(2, 2), args=args)


@pytest.mark.long
def test_an_epoch_without_rows_comes_before_the_first_row(spark_on, leftovers, tmp_path):
    """Programs wait for that row, which says what the columns hold."""
    spark = spark_on(THREE_EXECUTORS)
    rows = spark.range(0, ROWS, 1, 6)
    with run_two(spark, tmp_path) as cluster:
        cluster.train(rows.where("false"))
        cluster.train(rows)
    assert [node.state for node in cluster.status()] == ["done", "done"]
    given = given_in_epochs(tmp_path)
    assert sorted(i for node in given.values() for i in node[-1]) == list(range(ROWS))
    assert [node[:-1] for node in given.values()] == [[[]], [[]]]


def test_a_program_that_never_gets_a_row_is_told(spark_on, leftovers, tmp_path):
    spark = spark_on(THREE_EXECUTORS)
    with pytest.raises(NodeFailedError, match="the feed ended before worker:[01] got a row"):
        with run_two(spark, tmp_path) as cluster:
            cluster.train(spark.range(ROWS).where("false"))


@pytest.mark.parametrize(
    ("options", "why"),
    [({"max_lost_nodes": 1}, "leave one of them out"), ({"nodes": (3, 2)}, "above the most")],
)
def test_what_does_not_go_together_is_refused(spark_on, options, why):
    with pytest.raises(BadInputError, match=why):
        tfos.run(spark_on(THREE_EXECUTORS), train_by_fit, **{"nodes": (2, 3), **options})


def validate_in_the_middle(ctx):
    """Leaves each epoch of the feed in the middle, for its validation."""
    import keras

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
    history = model.fit(
        ctx.dataset(BATCH, features="x", label="y").repeat(),
        epochs=EPOCHS,
        steps_per_epoch=ctx.args["steps"],
        validation_data=ctx.dataset(BATCH, features="x", label="y", queue="validation"),
        verbose=0,
    )
    # A node whose share of the validation rows is empty has none.
    validated = len(history.history.get("val_loss", []))
    path = pathlib.Path(ctx.args["directory"]) / f"counts-{ctx.node_id}"
    path.write_text(f"{int(model.optimizer.iterations)} {validated}")


@pytest.mark.long
def test_an_epoch_that_all_nodes_leave_in_the_middle_ends(spark_on, leftovers, tmp_path):
    spark = spark_on(THREE_EXECUTORS)
    rows = spark.range(480).selectExpr("array(id / 480) AS x", "id / 160 AS y").localCheckpoint()
    args = {"directory": str(tmp_path), "steps": 480 // BATCH // 4}
    with tfos.run(spark, validate_in_the_middle, nodes=(2, 2), args=args) as cluster:
        cluster.train(rows, epochs=EPOCHS, validation=rows.limit(64))
    assert [node.state for node in cluster.status()] == ["done", "done"]
    counts = [list(map(int, path.read_text().split())) for path in tmp_path.glob("counts-*")]
    assert [steps for steps, _ in counts] == [EPOCHS * args["steps"]] * 2
    assert sum(validated for _, validated in counts) >= EPOCHS
