"""Metrics over nodes: what the callback makes of those of each, without a cluster."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tfos import collective
from tfos.keras.metrics import AverageMetrics


def logs_of(keras, rows, validation, callbacks):
    """The logs of an epoch in which the model does not change."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"], weighted_metrics=["mape"])
    x, y, weights = rows
    history = model.fit(
        x,
        y,
        sample_weight=weights,
        batch_size=4,
        epochs=1,
        verbose=0,
        shuffle=False,
        callbacks=callbacks,
        validation_data=validation,
    )
    return {name: values[0] for name, values in history.history.items()}


def data(rows, seed):
    random = np.random.default_rng(seed)
    return (
        random.random((rows, 3), np.float32),
        random.random((rows, 1), np.float32) + 1,
        random.random(rows, np.float32),
    )


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("validates", [False, True])
def test_nodes_weigh_by_their_rows(monkeypatch, validates, package):
    keras = importlib.import_module(package)
    nodes, validation = [data(5, 1), data(22, 2)], [data(9, 3), data(2, 4)]
    said = []

    def all_reduce(tensor, op, *, name):
        """The sum over both nodes, once the second one has come."""
        assert op == "sum"
        said.append(np.asarray(tensor))
        return sum(said)

    monkeypatch.setattr(collective, "all_reduce", all_reduce)
    for rows, held_back in zip(nodes, validation, strict=True):
        found = logs_of(
            keras, rows, held_back if validates else None, [AverageMetrics(batch_norm=False)]
        )
    together = [np.concatenate(parts) for parts in zip(*nodes, strict=True)]
    all_held_back = tuple(np.concatenate(parts) for parts in zip(*validation, strict=True))
    expected = logs_of(keras, together, all_held_back if validates else None, [])
    assert set(found) == {
        prefix + name
        for name in ("loss", "mae", "mape")
        for prefix in (("", "val_") if validates else ("",))
    }
    assert found == pytest.approx(expected, rel=1e-5)
    assert len(said) == 2
