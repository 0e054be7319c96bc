"""The files of a checkpoint: archives of arrays, and manifests with a sum of their own.

docs/formats/checkpoint.md has the format.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import zipfile
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from tfos.keras import callback_state

#: The last member of an archive, or of one of several.
CALLBACKS = "callbacks.json"
#: The member that says which rows were trained on; the name of the queue follows.
TRAINED = "trained/"
_NUMBERS_IN_LINE = 7

#: The queue that Spark feeds, and which rows of the epoch were trained on, as uint64 numbers.
Trained = tuple[str, bytes]


class Variable(NamedTuple):
    """What a variable is. ``dtype``: as TensorFlow calls it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{self.shape}"


#: In the order of the model. None: another node writes the value.
Values = Sequence[tuple[Variable, "np.ndarray | None"]]


class DamageError(Exception):
    """A checkpoint has not the bytes that were written."""


class Summed:
    """Counts and sums up what is written to a file, if there is one. Without ``tell``, so that an
    archive never goes back."""

    def __init__(self, file: IO[bytes] | None):
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._file is not None:
            self._file.write(data)
        self._hash.update(data)
        self.size += size
        return size

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()


def write_arrays(
    file: Any,
    variables: Values,
    callbacks: callback_state.State | None,
    trained: Trained | None = None,
) -> None:
    """An archive as ``numpy.load`` reads it. ``callbacks``: None where another one has them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for place, (variable, value) in enumerate(variables):
            if value is None:
                continue
            # Such as bfloat16, which is not NumPy's own.
            plain = value if value.dtype.isbuiltin == 1 else value.view(f"u{value.itemsize}")
            _write_array(archive, member(place, variable), plain)
        if trained is not None:
            queue, lines = trained
            numbers_of_chunks = np.frombuffer(lines, np.uint64).reshape(-1, _NUMBERS_IN_LINE)
            _write_array(archive, f"{TRAINED}{queue}.npy", numbers_of_chunks)
        if callbacks is None:
            return
        numbers = itertools.count()

        def keep(array: np.ndarray) -> str:
            name = f"callbacks/{next(numbers):05d}.npy"
            _write_array(archive, name, array)
            return name

        # They may remember weights as large as the model's.
        archive.writestr(CALLBACKS, callback_state.encoded(callbacks, keep))


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def member(place: int, variable: Variable) -> str:
    """The name of a variable's array. ``place``: among those of the model."""
    return f"{place:05d} {variable.name}.npy"


def encoded(manifest: dict[str, Any]) -> bytes:
    """As the file has it: with a sum of its own."""
    text = json.dumps(manifest, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (json.dumps({**manifest, "sha256": digest}, indent=1, sort_keys=True) + "\n").encode()


def decoded(text: bytes, name: str) -> dict[str, Any]:
    """What was given to :func:`encoded`. ``name``: of the file. Raises :class:`DamageError`."""
    try:
        manifest: dict[str, Any] = json.loads(text)
        del manifest["sha256"]
        whole = encoded(manifest) == text
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        raise DamageError(f"{name} has other bytes than were written")
    return manifest
