"""``nodes=(least, most)`` with rows that Spark feeds: nodes that come in place of lost ones, or late,
and train with the others from the beginning of an epoch on."""

from __future__ import annotations

import collections
import os
import pathlib
import signal

import pytest

import tfos
from support.executor_jvm import executor_of
from support.programs.given_rows import with_notes
from support.spark.slots import slot_held

ROWS = 600
BATCH = 8
#: A bound for a test that goes wrong; the nodes end when all are there.
EPOCHS = 1000
#: From this epoch on the nodes look whether all are there.
LOOK_FROM = 2

THREE_EXECUTORS = "local-cluster[3,2,1024]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"


def train_until_complete(ctx):
    """Trains until all nodes are there, and two epochs more. Writes down which rows it was given: a
    line for each step of an epoch. The victim's first process dies."""
    import tensorflow as tf

    import keras
    from tfos import collective

    directory = pathlib.Path(ctx.args["directory"])
    life = len(list(directory.glob(f"node-{ctx.node_id}-*")))
    given = open(directory / f"node-{ctx.node_id}-{life}", "w")
    is_victim = ctx.rank == ctx.args["victim"]

    class Watch(keras.callbacks.Callback):
        steps = 0
        complete = 0

        def on_epoch_begin(self, epoch, logs=None):
            # As a program's own callbacks may, if they do it on all nodes.
            collective.barrier("the program's own")
            print(f"epoch {epoch}", file=given, flush=True)
            self.is_complete = epoch >= LOOK_FROM and collective.size() == ctx.size

        def on_train_batch_begin(self, batch, logs=None):
            if is_victim and life == 0 and self.steps == ctx.args["killed_in"]:
                die(ctx)
            self.steps += 1

        def on_epoch_end(self, epoch, logs=None):
            # The same on all nodes.
            self.complete = self.complete + 1 if self.is_complete else 0
            self.model.stop_training = self.complete == 3

    if is_victim and life == 1:
        misbehave(ctx.args.get("joiner"), collective)
    dataset = with_notes(ctx.dataset(BATCH), given, ROWS)
    if is_victim and life == 1 and ctx.args.get("joiner") == "barrier":
        collective.barrier("that the others are not in")
    options = {}
    if ctx.args.get("validates"):
        options["validation_data"] = ctx.dataset(BATCH, queue="validation").map(
            lambda ids: (tf.cast(ids, tf.float32)[:, None], tf.cast(ids, tf.float32)[:, None])
        )
    model = keras.Sequential(
        [keras.Input([1]), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse")
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[Watch()], **options)
    state = [*model.trainable_variables, *model.optimizer.variables]
    text = str([variable.numpy().tolist() for variable in state])
    (directory / f"state-{ctx.node_id}").write_text(text)


def die(ctx):
    if ctx.args.get("executor"):
        executor_of().kill()
        signal.pause()  # Its agent ends it.
    os.kill(os.getpid(), signal.SIGKILL)


def misbehave(moment, collective):
    """What the victim's second life does at the moment that a test names."""

    def dead(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "dies before it comes in":
        dead()
    elif moment == "dies when it is in":
        group = collective.group()
        plain = group.come_in
        group.come_in = lambda: (plain(), dead())
    elif moment == "dies when it has the weights":
        collective.group().settle = dead


def given_in_epochs(directory):
    """By node and life, the ids for each epoch."""
    given = {}
    for path in directory.glob("node-*"):
        _, node, life = path.name.split("-")
        epochs = given[int(node), int(life)] = {}
        for line in path.read_text().splitlines():
            if line.startswith("epoch"):
                rows = epochs.setdefault(int(line.split()[1]), [])
            else:
                rows += map(int, line.split())
    return given


def run(spark, directory, *, victim=1, killed_in=5, nodes=(2, 3), lives=2, kind="frame", **args):
    rows = spark.range(0, ROWS, 1, 6)
    data = rows if kind == "frame" else rows.rdd.map(lambda row: {"id": row.id})
    arguments = {"directory": str(directory), "victim": victim, "killed_in": killed_in, **args}
    with tfos.run(spark, train_until_complete, nodes=nodes, args=arguments) as cluster:
        validation = data if args.get("validates") else None
        cluster.train(data, epochs=EPOCHS, validation=validation)
    check(cluster, directory, victim, nodes[1], lives)
    return cluster


def check(cluster, directory, victim, nodes, lives):
    assert {node.state for node in cluster.status()} == {"done"}
    states = [path.read_text() for path in directory.glob("state-*")]
    assert len(states) == nodes and set(states) == {states[0]}
    given = given_in_epochs(directory)
    joined = given[victim, lives - 1]
    first, last = min(joined), max(joined)
    assert first > 0, "it goes on where the others are"
    assert last == first + 2 or first < LOOK_FROM
    for epoch in range(last + 1):
        by_whom = {who: epochs[epoch] for who, epochs in given.items() if epoch in epochs}
        of_lost = {who for who in by_whom if who[0] == victim and who[1] < lives - 1}
        counts = collections.Counter(
            row for who, rows in by_whom.items() if who not in of_lost for row in rows
        )
        assert set(counts.values()) == {1}, epoch
        missing = set(range(ROWS)) - counts.keys()
        # What a node has left that is lost when the epoch's end was told is not fed again.
        if not any(epoch == max(given[who]) for who in of_lost):
            assert missing <= {row for who in of_lost for row in by_whom[who]}, epoch
        if epoch >= first:
            assert not missing and len(by_whom) == nodes
            assert joined[epoch], "the one that joined has its share"


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "killed_in", "kind"), [(1, 5, "frame"), (0, 40, "rdd")], ids=["worker", "chief"]
)
def test_a_killed_node_comes_again_in_a_later_epoch(
    spark_on, leftovers, tmp_path, victim, killed_in, kind
):
    cluster = run(
        spark_on(THREE_EXECUTORS), tmp_path, victim=victim, killed_in=killed_in, kind=kind
    )
    ledger = cluster.ledger()
    assert ledger.lost == ledger.came_again == {f"worker:{victim}"}
    assert any("another came in its place" in line for line in ledger.lines())


@pytest.mark.failure("executor killed", "training")
@pytest.mark.long
def test_a_node_comes_again_on_another_executor(spark_on, leftovers, tmp_path):
    # The executors have one slot each, so that no other node is on the one that is killed.
    run(spark_on("local-cluster[3,1,1024]"), tmp_path, executor=True, validates=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    ["dies before it comes in", "dies when it is in", "dies when it has the weights", "barrier"],
)
def test_what_goes_wrong_with_a_node_that_joins_is_done_without(
    spark_on, leftovers, tmp_path, moment
):
    run(spark_on(THREE_EXECUTORS), tmp_path, lives=3, joiner=moment)


@pytest.mark.long
def test_below_the_minimum_the_next_epoch_waits_for_another_node(
    spark_on, leftovers, tmp_path, capfd
):
    run(spark_on(THREE_EXECUTORS), tmp_path, nodes=(2, 2))
    assert "1 of at least 2 nodes are there" in capfd.readouterr().err


@pytest.mark.long
def test_a_fed_cluster_begins_with_the_minimum_and_grows(spark_on, leftovers, tmp_path):
    spark = spark_on(TWO_EXECUTORS)
    rows = spark.range(0, ROWS, 1, 6)
    arguments = {"directory": str(tmp_path), "victim": -1, "killed_in": 0}
    with (
        slot_held(spark.sparkContext, tmp_path) as release,
        tfos.run(spark, train_until_complete, nodes=(1, 2), args=arguments) as cluster,
    ):
        release()
        cluster.train(rows, epochs=EPOCHS)
    (late,) = [node for (node, _), epochs in given_in_epochs(tmp_path).items() if 0 not in epochs]
    check(cluster, tmp_path, late, 2, 1)
