"""What a program returns, from the node's process to the launch task."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tfos.base.programs import program_result
from tfos.errors import BadInputError


def sent(value):
    """What the launch task reads of what a node has written."""
    with program_result.open_file() as file:
        program_result.write(file.fileno(), value)
        return program_result.read(file)


@pytest.mark.parametrize("value", [None, 0, {"loss": [0.5, 0.25]}, b"x" * 1000, lambda: 7])
def test_values_arrive(value):
    got = program_result.value_of(sent(value), "worker:0")
    assert got() == 7 if callable(value) else got == value


def test_a_large_array_arrives():
    got = program_result.value_of(sent(np.arange(50_000)), "worker:0")
    assert np.array_equal(got, np.arange(50_000))


def test_no_disk_is_needed(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert program_result.value_of(sent(7), "worker:0") == 7


def test_whoever_is_killed_leaves_no_file():
    with program_result.open_file() as file:
        program_result.write(file.fileno(), "half a model")
        found = os.fstat(file.fileno())
        assert found.st_nlink == 0 and found.st_size > 0


def test_a_program_that_did_not_return_has_no_value():
    with program_result.open_file() as file:
        assert program_result.read(file) is None
    assert program_result.value_of(None, "worker:0") is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"x" * (program_result.MOST_BYTES + 1), "it has more than 1 MiB: write it to a file"),
        (threading.Lock(), "it can't be pickled .TypeError: "),
    ],
    ids=["large", "lock"],
)
def test_what_cannot_be_sent_is_said_to_who_asks(value, why):
    content = sent(value)
    with pytest.raises(BadInputError, match=f"what the program of worker:1 returned .*{why}"):
        program_result.value_of(content, "worker:1")


def test_the_processes_of_a_program_do_not_get_the_file():
    node = """
import os, subprocess, sys
from tfos.base.programs import program_result
number = program_result.inherited()
assert program_result.inherited() is None
program_result.write(number, 7)
look = f"import os; assert not os.path.exists('/proc/self/fd/{number}')"
subprocess.run([sys.executable, "-c", look], close_fds=False, check=True)
"""
    with program_result.open_file() as file:
        number = file.fileno()
        subprocess.run(
            [sys.executable, "-c", node],
            env={**os.environ, program_result.VARIABLE: str(number)},
            pass_fds=[number],
            check=True,
        )
        assert program_result.value_of(program_result.read(file), "worker:0") == 7
