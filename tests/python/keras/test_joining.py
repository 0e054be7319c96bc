"""``nodes=(least, most)``: nodes that come in place of lost ones, or late, and train with the others."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import tfos
from support.executor_jvm import executor_of, tasks_of
from support.programs.lives import begin_life, kill_after, say_it_joins, wait_for_those_who_join
from support.spark.slots import slot_held
from tfos.errors import NodeFailedError

COLUMNS = 8
ROWS = 16
STEPS = 10
#: A bound for a test that goes wrong; the nodes end when all are there.
EPOCHS = 3000
#: From this epoch on the nodes look whether all are there.
LOOK_FROM = 2
#: A moment at which a node that joins has an error: it reads past what the others have trained on.
READING = "reading"


def train_together(ctx):
    """Trains until all nodes are there, and one epoch more. The victim's first process dies."""
    import tensorflow as tf

    import keras
    from tfos import collective

    life, victim = begin_life(ctx), ctx.args["victim"]

    def batches():
        random = np.random.default_rng(ctx.rank)
        for _ in range(STEPS):
            if ctx.args.get("joiner_dies") == READING and (ctx.rank, life) == (victim, 1):
                raise OSError("the batch can't be read")
            features = random.normal(loc=3, size=(ROWS, COLUMNS)).astype(np.float32)
            yield features, features.sum(axis=1, keepdims=True)

    class Watch(keras.callbacks.Callback):
        first = None
        complete = False
        #: The statistics of layers after the last step, and whether they were the same at the next.
        after = None
        kept = True

        def on_epoch_begin(self, epoch, logs=None):
            if epoch > 0:
                wait_for_those_who_join(ctx)
            if self.first is None:
                mean = model.get_layer("norm").moving_mean.numpy()
                self.first = (epoch, int(model.optimizer.iterations), mean)
            # The epoch in which a node has joined had begun without it on the others.
            looks = epoch >= LOOK_FROM and epoch > self.first[0]
            self.complete = looks and collective.size() == ctx.size

        def on_train_batch_end(self, batch, logs=None):
            if ctx.rank == victim and life == 0 and batch == 3:
                die(ctx)
            self.after = model.get_layer("norm").moving_mean.numpy()

        def on_train_batch_begin(self, batch, logs=None):
            if self.after is not None:
                mean = model.get_layer("norm").moving_mean.numpy()
                self.kept = self.kept and np.array_equal(mean, self.after)

        def on_epoch_end(self, epoch, logs=None):
            # The same on all nodes.
            self.model.stop_training = self.complete

    model = keras.Sequential(
        [
            keras.Input([COLUMNS]),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=100, decay_rate=0.9)
    model.compile(ctx.distribute(keras.optimizers.Adam(rate)), "mse")
    say_it_joins(ctx)
    if life == 1:
        die_while_joining(ctx)
    dataset = tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec([ROWS, COLUMNS], tf.float32),
            tf.TensorSpec([ROWS, 1], tf.float32),
        ),
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(STEPS))
    watch = Watch()
    kept = ctx.args.get("checkpoints")
    checkpoints = [ctx.checkpoint(kept, every_seconds=0)] if kept else []
    # It counts the epochs after the first one.
    patience = keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=EPOCHS)
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[watch, patience, *checkpoints])
    state = [*model.trainable_variables, *model.optimizer.variables]
    return {
        "state": [variable.numpy() for variable in state],
        "iterations": int(model.optimizer.iterations),
        "rate": float(model.optimizer.learning_rate),
        "first": watch.first,
        "kept": watch.kept,
        "wait": patience.wait,
        "life": life,
        "size": collective.size(),
    }


def die(ctx):
    if other := ctx.args.get("kills"):
        executor = executor_of()
        for process in [executor] if other == "executor" else tasks_of(executor):
            process.kill()
        signal.pause()  # Its agent ends it.
    kill_after(0)


def die_while_joining(ctx):
    """In the second life of the victim, at the moment that a test names."""
    from tfos import collective

    moment = ctx.args.get("joiner_dies")
    if ctx.rank != ctx.args["victim"] or moment in (None, READING):
        return

    def dead(*arguments):
        kill_after(0)

    if moment == "before it comes in":
        dead()
    # "come_in": when it waits for the others. "settle": it has the weights, and has not said so.
    group = collective.group()
    plain = getattr(group, moment)
    if moment == "come_in":
        setattr(group, moment, lambda: (plain(), dead()))
    else:
        setattr(group, moment, dead)


def check(results, victim, lives, steps_before=4):
    first = results[0]
    assert all(result is not None for result in results)
    assert [result["size"] for result in results] == [len(results)] * len(results)
    for result in results:
        assert len(result["state"]) == len(first["state"])
        for one, other in zip(result["state"], first["state"], strict=True):
            assert np.array_equal(one, other)
        assert result["iterations"] == first["iterations"]
        assert result["rate"] == first["rate"] < 0.01
        assert result["wait"] == first["wait"], "its callbacks decide as those of the others"
        assert result["kept"], "those that trained already keep what is their own"
    joined = results[victim]
    assert joined["life"] == lives - 1
    epoch, iterations, mean = joined["first"]
    assert iterations >= steps_before, "it has not begun anew"
    assert epoch * STEPS <= iterations
    assert np.abs(mean).max() > 0, "the statistics of layers came, too"


def run(spark, tmp_path, victim=1, lives=2, nodes=(2, 3), **args):
    arguments = {"victim": victim, "dir": str(tmp_path), **args}
    with tfos.run(
        spark, train_together, nodes=nodes, args=arguments, input_mode="tensorflow"
    ) as cluster:
        results = cluster.wait(timeout=280)
        steps = {node.metrics["step"] for node in cluster.status()}
    check(results, victim, lives)
    assert steps == {results[0]["iterations"]}, "also of the one that joined"


THREE_EXECUTORS = "local-cluster[3,1,1024]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"


@pytest.mark.failure("node killed", "training")
@pytest.mark.long
@pytest.mark.parametrize("victim", [1, 0])
def test_a_killed_node_comes_again_with_the_weights_of_the_others(
    spark_on, leftovers, tmp_path, victim
):
    run(spark_on(THREE_EXECUTORS), tmp_path, victim)


@pytest.mark.long
def test_a_chief_that_comes_again_reads_no_checkpoint(spark_on, leftovers, tmp_path):
    (tmp_path / "lives").mkdir()
    kept = str(tmp_path / "checkpoints")
    run(spark_on(THREE_EXECUTORS), tmp_path / "lives", victim=0, checkpoints=kept)
    assert tfos.last_checkpoint(kept).epoch > LOOK_FROM


@pytest.mark.failure("executor killed", "training")
@pytest.mark.failure("task retry", "training")
def test_a_node_comes_again_on_another_executor(spark_on, leftovers, tmp_path):
    run(spark_on(THREE_EXECUTORS), tmp_path, kills="executor")


@pytest.mark.failure("Python worker killed", "training")
@pytest.mark.long
def test_a_node_whose_launch_task_is_killed_comes_again(spark_on, leftovers, tmp_path):
    run(spark_on(THREE_EXECUTORS), tmp_path, kills="task")


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before it comes in", "come_in", "settle", READING])
def test_a_node_that_dies_while_it_joins_is_done_without(spark_on, leftovers, tmp_path, moment):
    run(spark_on(THREE_EXECUTORS), tmp_path, lives=3, joiner_dies=moment)


@pytest.mark.long
def test_below_the_minimum_training_waits_for_another_node(spark_on, leftovers, tmp_path, capfd):
    run(spark_on(TWO_EXECUTORS), tmp_path, nodes=(2, 2))
    assert (
        "1 of at least 2 nodes are there: the cluster fails 300 s after" in capfd.readouterr().err
    )


@pytest.mark.long
def test_below_the_minimum_the_cluster_fails_after_a_while(spark_on, leftovers, tmp_path, capfd):
    arguments = {"victim": 1, "dir": str(tmp_path)}
    with pytest.raises(NodeFailedError, match="no other came within 1.0 s"):
        with tfos.run(
            spark_on(TWO_EXECUTORS),
            train_together,
            nodes=(2, 2),
            args=arguments,
            input_mode="tensorflow",
            min_nodes_timeout=1,
        ) as cluster:
            cluster.wait(timeout=280)
    lines = [line.partition(" s  ")[2] for line in capfd.readouterr().err.splitlines()]
    assert [line for line in lines if line.startswith("failed |")], "nobody waits any more"
    assert not [line for line in lines if line.startswith("failed:")]


@pytest.mark.long
def test_a_cluster_begins_with_the_minimum_and_grows(spark_on, leftovers, tmp_path):
    spark = spark_on(TWO_EXECUTORS)
    arguments = {"victim": -1, "dir": str(tmp_path)}
    with (
        slot_held(spark.sparkContext, tmp_path) as release,
        tfos.run(
            spark, train_together, nodes=(1, 2), args=arguments, input_mode="tensorflow"
        ) as cluster,
    ):
        assert sorted(node.state for node in cluster.status())[0] == "expected"
        late = next(node.node_id for node in cluster.status() if node.state == "expected")
        release()
        results = cluster.wait(timeout=280)
    # When the other one has begun, this one's program may have been imported, too.
    check(results, late, 1, steps_before=1)
