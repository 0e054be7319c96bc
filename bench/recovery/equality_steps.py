"""What the nodes of equality.py have in common with the one machine that repeats their steps: the
model, the batches, and what says which nodes took part in a step.

A batch tells its number to the model, and the gradient of one weight is these numbers. So what the
nodes have summed up says itself whose batches are in it, and which ones; nobody needs to be asked.
"""

from __future__ import annotations

import hashlib
import json
import pathlib

import numpy as np

#: Nodes that there are at most.
NODES = 3
#: In a batch of each of them. They differ, so that nodes weigh differently in a mean.
ROWS = (32, 24, 40)
FEATURES = 16
STEPS_OF_AN_EPOCH = 20
BETA = 0.9


def batch_of(step, rank):
    """The rows of a node in a step, which counts from 1."""
    random = np.random.default_rng([step, rank])
    features = random.normal(size=(ROWS[rank], FEATURES)).astype(np.float32)
    number = np.zeros((ROWS[rank], NODES), np.float32)
    number[:, rank] = step
    labels = np.sin(features.sum(axis=1, keepdims=True))
    return {"features": features, "number": number}, labels


def model_of(units, seed):
    """A model of Keras whose weights are those of a seed."""
    import keras

    class Attendance(keras.layers.Layer):
        """Hands on its first input. The gradient of its weight is the mean of the second one."""

        def build(self, shapes):
            self.seen = self.add_weight(shape=(NODES, 1), initializer="zeros", name="seen")

        def call(self, inputs):
            outputs, number = inputs
            self.add_loss(keras.ops.mean(keras.ops.matmul(number, self.seen)))
            return outputs

    features = keras.Input([FEATURES], name="features")
    number = keras.Input([NODES], name="number")
    hidden = keras.layers.Dense(units, activation="tanh", name="dense_1")(features)
    hidden = keras.layers.Dense(units // 2, activation="tanh", name="dense_2")(hidden)
    outputs = keras.layers.Dense(1, name="dense_3")(hidden)
    outputs = Attendance(name="attendance")([outputs, number])
    model = keras.Model({"features": features, "number": number}, outputs)
    random = np.random.default_rng(seed)
    model.set_weights(
        [
            random.normal(scale=0.1, size=weight.shape).astype(np.float32)
            for weight in model.get_weights()
        ]
    )
    return model


def optimizer_of():
    import keras

    return keras.optimizers.Adam(1e-3, beta_1=BETA, name="adam")


def gradients_function(model):
    """What `fit` does up to the gradients, for a model that was compiled."""
    import tensorflow as tf

    trained = [variable.value for variable in model.trainable_variables]

    def gradients_of(x, y):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        return tape.gradient(loss, trained)

    return tf.function(gradients_of, input_signature=kinds_of_batch())


def kinds_of_batch():
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda value: tf.TensorSpec([None, *value.shape[1:]], value.dtype), batch_of(1, 0)
    )


def variables_of(model, optimizer):
    """Weights and the state of the optimizer, as arrays by name."""
    variables = [*model.weights, *optimizer.variables]
    return {
        f"{place:02} {variable.path}": variable.numpy() for place, variable in enumerate(variables)
    }


def digest_of(variables):
    digest = hashlib.sha256()
    for value in variables.values():
        digest.update(value.tobytes())
    return digest.hexdigest()[:16]


def momentum_of(optimizer):
    """Of the weight whose gradient says who took part."""
    return next(
        variable.numpy()[:, 0].astype(float)
        for variable in optimizer.variables
        if "attendance" in variable.path and "momentum" in variable.path
    )


def attendance_of(before, after):
    """The number of the batch that each node had in a step, 0 for none: by that momentum."""
    gradient = before + (after - before) / (1 - BETA)
    rows = np.where(gradient > 0.1, ROWS, 0)
    numbers = gradient * rows.sum() / np.array(ROWS)
    whole = np.round(numbers).astype(int)
    assert np.abs(numbers - whole).max() < 0.2, f"batches with the numbers {numbers}"
    return whole.tolist()


def read_journal(path):
    """The lines that a node has written, each of a step. A last one may be in part."""
    whole, _, _ = path.read_text().rpartition("\n")
    return list(map(json.loads, whole.splitlines()))


def committed(directory):
    """The steps of all nodes in order, each once. Raises AssertionError where nodes differ, or a
    step is missing, or comes twice, or has another batch than its own."""
    steps = {}
    for path in sorted(pathlib.Path(directory).glob("journal-*")):
        last = 0
        for line in read_journal(path):
            step = line["step"]
            assert step > last, f"{path.name}: step {step} comes after step {last}"
            last = step
            known = steps.setdefault(step, line)
            assert known == line, f"{path.name} has {line} where another node has {known}"
    assert steps, f"no step in {directory}"
    expected = range(min(steps), min(steps) + len(steps))
    assert sorted(steps) == list(expected), "a step is missing"
    for step, line in steps.items():
        others = set(line["batches"]) - {0, step}
        assert not others, f"step {step} has the batches {line['batches']}"
        assert any(line["batches"]), f"step {step} has no batch"
    return [steps[step] for step in expected]
