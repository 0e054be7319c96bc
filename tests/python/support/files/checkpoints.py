"""Checkpoints without a model, which say in each value which they are."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import ml_dtypes
import numpy as np

from support.files.remote_files import names_in
from support.places import IMPORT_PATHS, SCRIPTS
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


def parts_in(folder: str) -> list[str]:
    """The names of the archives that a checkpoint has."""
    return [name for name in names_in(folder) if name.endswith(".npz")]


def dying_writer(
    directory: str | os.PathLike[str], what: str, **environment: str
) -> subprocess.Popen[str]:
    """The process of scripts/dying_writer.py, which writes in ways that it describes."""
    paths = [*IMPORT_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, SCRIPTS / "dying_writer.py", directory, what],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
    )


def check_kill(
    directory: str | os.PathLike[str], seed: int, most: int, spins: int, **environment: str
) -> None:
    """Kills a writer after up to ``most`` checkpoints, and some work of the processor. It leaves a
    whole one, and the next writer goes on from there."""
    moments = random.Random(seed)
    with dying_writer(directory, "endless", **environment) as process:
        assert process.stdout is not None
        for _ in range(moments.randrange(1, most)):
            there = int(process.stdout.readline())
        for _ in range(moments.randrange(spins)):
            pass
        process.kill()
        later = [int(line) for line in process.stdout if line.endswith("\n")]
    newest = checked(directory).epoch
    assert newest >= max([there, *later])
    files = CheckpointDirectory(directory)
    files.write(state_of(newest + 1))
    files.prune(2)
    assert checked(directory).epoch == newest + 1
    assert len(names_in(directory)) == 2


def check_each_kill(directory: str | os.PathLike[str], what: str) -> int:
    """Has writers killed before each thing that they do, until one lives. Each has left a whole
    checkpoint, and the last one has cleaned up. Returns how many were killed."""
    with dying_writer(directory, what) as process:
        assert process.stdout is not None
        ends = [tuple(map(int, line.split())) for line in process.stdout]
    assert process.returncode == 0
    *killed, (status, newest) = ends
    assert status == 0 and {status for status, _ in killed} == {signal.SIGKILL}
    numbers = [number for _, number in ends]
    assert numbers == sorted(numbers), "the newest is never lost"
    assert newest > 1, "some were killed after the commit"
    assert len(names_in(directory)) == 2
    assert checked(directory).epoch == newest
    return len(killed)


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
