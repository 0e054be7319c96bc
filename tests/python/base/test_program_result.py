"""What a program returns, from the node's process to the launch task."""

from __future__ import annotations

import os
import stat
import threading

import numpy as np
import pytest

from tfos.base import program_result
from tfos.errors import BadInputError


@pytest.mark.parametrize("value", [None, 0, {"loss": [0.5, 0.25]}, b"x" * 1000, lambda: 7])
def test_values_arrive_and_leave_no_file(value):
    path = program_result.new_path()
    program_result.write(path, value)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    got = program_result.value_of(program_result.take(path), "worker:0")
    assert got() == 7 if callable(value) else got == value
    assert not os.path.exists(path)


def test_a_large_array_arrives():
    path = program_result.new_path()
    program_result.write(path, np.arange(50_000))
    got = program_result.value_of(program_result.take(path), "worker:0")
    assert np.array_equal(got, np.arange(50_000))


def test_a_program_that_did_not_return_has_no_value():
    assert program_result.take(program_result.new_path()) is None
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
    path = program_result.new_path()
    program_result.write(path, value)
    content = program_result.take(path)
    with pytest.raises(BadInputError, match=f"what the program of worker:1 returned .*{why}"):
        program_result.value_of(content, "worker:1")


def test_a_file_that_is_there_is_not_written(tmp_path):
    path = tmp_path / "planted"
    path.write_text("")
    with pytest.raises(FileExistsError):
        program_result.write(str(path), 1)
