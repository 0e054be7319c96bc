"""Of test_keras_batches.py: three epochs of ``fit`` with Keras on JAX, as on a GPU, which is given
batches ahead. Prints how many steps were made, by how many batches an epoch has."""

from __future__ import annotations

import json

import jax
import numpy as np

import keras
from tfos.feed import keras_batches

jax.default_backend = lambda: "gpu"


class Batches:
    """Each pass goes on where the one before was left."""

    def __init__(self, in_each):
        self._in_each = in_each
        self._left = in_each

    def __iter__(self):
        while self._left:
            self._left -= 1
            yield np.ones((4, 2), np.float32), np.ones(4, np.float32)
        self._left = self._in_each


def steps_of(in_each):
    model = keras.Sequential([keras.layers.Dense(1)])  # Without a shape, so Keras looks.
    model.compile("sgd", "mse")
    steps = []
    counting = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: steps.append(batch)
    )
    model.fit(Batches(in_each), epochs=3, verbose=0, callbacks=[counting])
    return len(steps)


keras_batches.prepare(Batches)
print(json.dumps({in_each: steps_of(in_each) for in_each in (1, 2, 5)}))
