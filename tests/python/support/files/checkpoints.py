"""Checkpoints without a model, which say in each value which they are."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np

from tfos.keras.callback_state import encoded
from tfos.keras.checkpoint.archive import Variable
from tfos.keras.checkpoint.directory import Checkpoint, CheckpointDirectory, State
from tfos.keras.checkpoint.parts import PartedDirectory, Plan, split

#: Of nodes that write parts, by rank.
NAMES = ("chief:0", "worker:0", "worker:1")


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


def parts_of(number: int) -> list[State]:
    """That state as each of the nodes has it that write parts."""
    state = state_of(number)
    values = [value for _, value in state.variables]
    owners = split(
        [value.nbytes for value in values], [value.ndim > 0 for value in values], len(NAMES)
    )
    return [
        state._replace(
            variables=[
                (variable, value if owner == rank else None)
                for (variable, value), owner in zip(state.variables, owners, strict=True)
            ]
        )
        for rank in range(len(NAMES))
    ]


def next_plan(files: PartedDirectory, number: int) -> Plan:
    """Of all nodes, for the state of a number."""
    return Plan.of(max(files._numbers(), default=0) + 1, range(len(NAMES)), number)


def write_in_parts(files: PartedDirectory, number: int) -> Checkpoint:
    """Writes the state of a number as the nodes do, the first one at last."""
    plan = next_plan(files, number)
    first, *others = parts_of(number)
    for rank, part in enumerate(others, 1):
        files.write_part(plan, rank, part.variables)
    return files.write_with_others(plan, first, NAMES, lambda: plan.ranks)


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
