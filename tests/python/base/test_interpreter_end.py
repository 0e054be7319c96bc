"""Daemon threads that are inside tfos when the interpreter ends."""

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


# Whether a thread wants the GIL at the wrong moment is chance: each time it was one of three.
@pytest.mark.parametrize("attempt", range(3))
def test_a_program_ends_well_while_daemon_threads_read(tmp_path, attempt):
    program = READER.format(path=str(tmp_path / "rows.tfrecord"))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "the end\n"
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
