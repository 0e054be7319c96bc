"""The callback that saves before a node is lost, without a cluster."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from support.places import SCRIPTS
from tfos.node.context import NodeContext


class Context(NodeContext):
    """A node's context that hears what the test says of leaving nodes."""

    def __init__(self, leaving):
        self._reporter = SimpleNamespace(leaving=lambda: leaving)


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_the_model_is_saved_after_the_batch_of_each_notice(package):
    keras = importlib.import_module(package)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    leaving, saved = {}, []
    # The batch in which a node's notice comes, comes again, comes for another executor of it, or
    # ends with the node, which comes again there.
    notices = {1: (1, 3), 2: (1, 3), 3: (0, 2), 4: (1, 4), 5: (1, None), 6: (1, 4)}

    def hear(batch, logs=None):
        if batch in notices and notices[batch][1] is None:
            del leaving[notices[batch][0]]
        elif batch in notices:
            node, executor = notices[batch]
            leaving[node] = f"executor {executor} is being decommissioned"

    seen = []
    callbacks = [
        keras.callbacks.LambdaCallback(on_train_batch_begin=hear),
        Context(leaving).on_leaving(lambda found: saved.append((found, len(seen)))),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch)),
    ]
    rows = np.zeros((8, 1), np.float32)
    model.fit(rows, rows, batch_size=1, epochs=1, verbose=0, callbacks=callbacks)
    assert saved == [(model, 1), (model, 3), (model, 4), (model, 6)]


def test_callbacks_find_the_values_of_a_model_that_trains_on_jax(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "callbacks_on_jax.py"), str(tmp_path)],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["saved", "summaries"]
