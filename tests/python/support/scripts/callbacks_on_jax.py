"""Of test_keras_leaving.py: DIRECTORY. A fit on JAX with callbacks that look at the model after each
step."""

from __future__ import annotations

import pathlib
import sys

import numpy as np

import keras
from tfos.keras.leaving import SaveBeforeLoss
from tfos.keras.summaries import Summaries


def main(directory):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = model.get_weights()
    leaving, saved = {}, []
    callbacks = [
        keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: leaving.update({batch: "it will be lost"})
        ),
        SaveBeforeLoss(lambda found: saved.append(found.get_weights()), lambda: leaving),
        Summaries(directory, dict, 0.0),
    ]
    rows = np.ones((4, 1), np.float32)
    model.fit(rows, 3 * rows, batch_size=1, verbose=0, callbacks=callbacks)
    assert len(saved) == 4
    for one, other in zip([before, *saved], saved, strict=False):
        assert not np.array_equal(one[0], other[0])  # Each step has changed them.
    assert np.array_equal(saved[-1][0], model.get_weights()[0])
    print("saved")
    assert any(pathlib.Path(directory).iterdir())
    print("summaries")


main(sys.argv[1])
