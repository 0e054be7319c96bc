"""``nodes=(least, most)``: training that goes on without nodes that are lost."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tfos
from support.programs.lives import kill_after
from tfos.errors import BadInputError, NodeFailedError

THREE_EXECUTORS = "local-cluster[3,1,1024]"

COLUMNS = 20_000
ROWS = 4
STEPS = 6
EPOCHS = 2
RATE = 0.1
#: The step in which the victim is killed, from 0.
KILLED_IN = 4


def batch_of(step, rank):
    random = np.random.default_rng([step, rank])
    features = random.normal(size=(ROWS, COLUMNS)).astype(np.float32) / COLUMNS**0.5
    return features, random.normal(size=(ROWS, 1)).astype(np.float32)


def train_together(ctx):
    """Fits a model to batches that are this node's, and tells what has become of it."""
    import tensorflow as tf

    import keras

    def batches():
        for step in range(STEPS):
            yield batch_of(step, ctx.rank)

    class Killer(keras.callbacks.Callback):
        steps = 0

        def on_train_batch_begin(self, batch, logs=None):
            if ctx.rank == ctx.args["victim"] and self.steps == KILLED_IN:
                # At any moment of the step.
                spins = ctx.args["spins"]
                threading.Thread(target=kill_after, args=(spins,)).start()
            self.steps += 1

    model = keras.Sequential([keras.Input([COLUMNS]), keras.layers.Dense(1, use_bias=False)])
    model.compile(ctx.distribute(keras.optimizers.SGD(RATE)), "mse")
    dataset = tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec([ROWS, COLUMNS], tf.float32),
            tf.TensorSpec([ROWS, 1], tf.float32),
        ),
    )
    begin = np.random.default_rng(ctx.rank).normal(size=(COLUMNS, 1)).astype(np.float32)
    model.set_weights([begin])
    history = model.fit(
        dataset, epochs=EPOCHS, verbose=0, callbacks=[Killer(), ctx.average_metrics()]
    )
    return (
        model.get_weights()[0],
        int(model.optimizer.iterations),
        history.history["loss"],
        tfos.collective.size(),
    )


def trained_on(batches_of_step):
    """The weights of one machine that is given these batches."""
    weights = np.random.default_rng(0).normal(size=(COLUMNS, 1)).astype(np.float32).astype(float)
    for batches in batches_of_step:
        features = np.concatenate([features for features, _ in batches]).astype(float)
        labels = np.concatenate([labels for _, labels in batches])
        gradient = 2 / len(labels) * features.T @ (features @ weights - labels)
        weights -= RATE * gradient
    return weights


def expected(ranks, victim, its_steps):
    """As if all nodes were one machine, with the batches of a victim in its first steps only."""
    return trained_on(
        [
            [batch_of(step % STEPS, rank) for rank in ranks if rank != victim or step < its_steps]
            for step in range(STEPS * EPOCHS)
        ]
    )


@pytest.mark.failure("node killed", "training")
@pytest.mark.parametrize(
    ("victim", "spins"),
    [(1, 0)]
    + [
        pytest.param(*case, marks=pytest.mark.long)
        for case in [(1, 20_000), (1, 200_000), (0, 50_000), (2, 100_000)]
    ],
)
def test_fit_goes_on_when_a_node_is_killed(spark_on, leftovers, victim, spins):
    spark = spark_on(THREE_EXECUTORS)
    args = {"victim": victim, "spins": spins}
    with tfos.run(
        spark,
        train_together,
        nodes=(2, 3),
        args=args,
        input_mode="tensorflow",
        late_nodes=False,
    ) as cluster:
        results = cluster.wait(timeout=300)
        states = [node.state for node in cluster.status()]
    assert results[victim] is None and states[victim] == "lost"
    survivors = [result for rank, result in enumerate(results) if rank != victim]
    for weights, iterations, losses, size in survivors:
        assert np.array_equal(weights, survivors[0][0])
        # Keras counts the step that finds no batch, at the end of each epoch.
        assert iterations == survivors[0][1] and iterations - STEPS * EPOCHS in (0, EPOCHS)
        assert losses == survivors[0][2]
        assert size == 2
    # The step in which it was killed has its batch on all others, or on none.
    distances = [
        np.abs(survivors[0][0] - expected(range(3), victim, steps)).max()
        for steps in (KILLED_IN, KILLED_IN + 1)
    ]
    assert min(distances) < 1e-5, distances


WORDS = 50


def words_of(step, rank):
    random = np.random.default_rng([step, rank])
    words = random.integers(0, WORDS, size=(ROWS, 4)).astype(np.int32)
    return words, random.normal(size=(ROWS, 1)).astype(np.float32)


def model_of_words(optimizer):
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input([4], dtype="int32"),
            keras.layers.Embedding(WORDS, 4),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse")
    return model


def train_words(ctx):
    """Fits a model with an embedding to as many batches as this node's rank says."""
    import tensorflow as tf

    import keras

    model = model_of_words(ctx.distribute(keras.optimizers.SGD(RATE)))
    dataset = tf.data.Dataset.from_generator(
        lambda: (words_of(step, ctx.rank) for step in range(2 + ctx.rank)),
        output_signature=(
            tf.TensorSpec([ROWS, 4], tf.int32),
            tf.TensorSpec([ROWS, 1], tf.float32),
        ),
    )
    model.fit(dataset, epochs=EPOCHS, verbose=0)
    return model.get_weights()


@pytest.mark.long
def test_rows_of_an_embedding_are_averaged_to_the_end_of_uneven_epochs(spark_on, leftovers):
    import keras

    with tfos.run(
        spark_on(THREE_EXECUTORS),
        train_words,
        nodes=(2, 3),
        input_mode="tensorflow",
        late_nodes=False,
    ) as cluster:
        results = cluster.wait(timeout=300)
    alone = model_of_words(keras.optimizers.SGD(RATE))
    for step in [*range(4)] * EPOCHS:
        parts = [words_of(step, rank) for rank in range(3) if step < 2 + rank]
        alone.train_on_batch(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    for place, expected_weights in enumerate(alone.get_weights()):
        for weights in results:
            assert np.array_equal(weights[place], results[0][place])
            np.testing.assert_allclose(weights[place], expected_weights, rtol=1e-4, atol=1e-6)


@pytest.mark.long
def test_below_the_minimum_the_cluster_fails(spark_on, leftovers):
    args = {"victim": 1, "spins": 0}
    with pytest.raises(NodeFailedError, match="worker:1 .*(killed by signal 9|SIGKILL)"):
        with tfos.run(
            spark_on(THREE_EXECUTORS),
            train_together,
            nodes=(2, 2),
            args=args,
            input_mode="tensorflow",
            late_nodes=False,
        ) as cluster:
            cluster.wait(timeout=300)


@pytest.mark.parametrize(
    ("nodes", "options", "why"),
    [
        ((3, 2), {"input_mode": "tensorflow"}, "the least number is above the most"),
        ((1, 3), {"input_mode": "tensorflow", "ps": 1}, "1 of them serve"),
        ((1, 2, 3), {"input_mode": "tensorflow"}, "the least and the most"),
        ((1.5, 2), {"input_mode": "tensorflow"}, "must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused(spark_on, nodes, options, why):
    with pytest.raises(BadInputError, match=why):
        tfos.run(spark_on(THREE_EXECUTORS), train_together, nodes=nodes, **options)
