"""Threads that are inside tfos when the interpreter ends: daemons of Python, and those of datasets."""

import subprocess
import sys

import pytest

READER = """
import threading

import pyarrow as pa

from tfos import records

path = {path!r}
records.write(path, [pa.record_batch({{"x": list(range(5_000))}})])
reading = [threading.Event() for _ in range(3)]


def read(begun):
    while True:
        for _ in records.read(path):
            begun.set()


for begun in reading:
    threading.Thread(target=read, args=(begun,), daemon=True).start()
for begun in reading:
    begun.wait()
print("the end")
"""

#: TensorFlow's threads ask for one more element, which never comes, as long as they live: passes begin,
#: read and end all the time. Nobody deletes the iterators, so they read on when `main` has returned.
DATASET = """
import ctypes

import pyarrow as pa
import tensorflow as tf

from tfos import records
from tfos.node import files

path = {path!r}
records.write(path, [pa.record_batch({{"x": list(range(5_000))}})])
rows = files.tfrecords([path], pa.schema([("x", pa.int64())]), 10)
only_the_first = rows.repeat().enumerate().filter(lambda index, row: index == 0).prefetch(1)
iterators = [iter(only_the_first) for _ in range(3)]
for iterator in iterators:
    next(iterator)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(iterator))
print("the end")
"""


# Whether a thread wants the GIL at the wrong moment is chance: each time it was one of three.
@pytest.mark.parametrize(
    "attempt", [0, *(pytest.param(attempt, marks=pytest.mark.long) for attempt in (1, 2))]
)
@pytest.mark.parametrize("program", [READER, DATASET], ids=["daemon threads", "datasets"])
def test_a_program_ends_well_while_others_read(tmp_path, program, attempt):
    program = program.format(path=str(tmp_path / "rows.tfrecord"))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240
    )
    assert done.stdout == "the end\n"
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
