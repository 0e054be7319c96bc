"""Checkpoints without a model, which say in each value which they are."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np

from tfos.keras.callback_state import encoded
from tfos.keras.checkpoints import Checkpoint, CheckpointDirectory, State, Variable


def state_of(number: int) -> State:
    values = {
        "dense/kernel": np.full((3, 2), number, np.float32),
        "dense/bias": np.full((2,), number, ml_dtypes.bfloat16),
        "dense/empty": np.zeros((0, 4), np.float64),
        "adam/iteration": np.array(number, np.int64),
        "scale/enabled": np.array(number % 2 == 1),
    }
    variables = [
        (Variable(name, value.dtype.name, value.shape), value) for name, value in values.items()
    ]
    weights = [values["dense/kernel"], values["dense/bias"]]
    best = {"wait": number, "best": float("inf"), "best_weights": weights}
    return State(number, 10 * number, "Adam", variables, {"EarlyStopping": [best]})


def checked(directory: str | os.PathLike[str]) -> Checkpoint:
    """The newest one, whose values are those of its number."""
    files = CheckpointDirectory(directory)
    saved = files.newest()
    assert saved is not None
    expected = state_of(saved.checkpoint.epoch)
    assert saved.checkpoint.step == expected.step
    assert saved.optimizer == expected.optimizer
    assert saved.variables == [variable for variable, _ in expected.variables]
    for value, (_, other) in zip(files.values(saved), expected.variables, strict=True):
        assert value.tobytes() == other.tobytes() and value.shape == other.shape
    assert encoded(files.callbacks(saved)) == encoded(expected.callbacks)
    return saved.checkpoint
