"""The checkpoints of a training: what is in their directory, on any file system of
:mod:`tfos.files`.

docs/formats/checkpoint.md has the format. :func:`last_checkpoint` tells the driver what is there;
nodes write and restore with ``ctx.checkpoint``, :mod:`tfos.keras.saving`. Needs neither Keras nor
TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import posixpath
import re
import sys
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from tfos.errors import BadInputError
from tfos.files import hadoop_settings, paths
from tfos.files.access import access_for, scheme_of
from tfos.files.local import LocalFiles
from tfos.keras import callback_state

FORMAT = 1
_FOLDER = re.compile(r"checkpoint-(\d{8,})")
_MANIFEST = "manifest.json"
#: The last member of an archive.
_CALLBACKS = "callbacks.json"
_BLOCK_BYTES = 4 << 20


class Variable(NamedTuple):
    """What a variable is. ``dtype``: as TensorFlow calls it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{self.shape}"


class State(NamedTuple):
    """What a checkpoint is made of, in the memory of this process.

    Attributes:
        epoch: where training goes on, from 0.
        step: how many batches of that epoch it has trained on.
        optimizer: the name of its class.
        variables: each with its value, in the order of the model.
        callbacks: what those that decide on the training remember.
    """

    epoch: int
    step: int
    optimizer: str
    variables: Sequence[tuple[Variable, np.ndarray]]
    callbacks: callback_state.State


class Checkpoint(NamedTuple):
    """A checkpoint that is whole.

    Attributes:
        path: its folder.
        epoch: where training goes on, from 0: so many epochs are done.
        step: how many batches of that epoch the model was trained on, on the node that wrote it.
    """

    path: str
    epoch: int
    step: int


class Saved(NamedTuple):
    """A checkpoint that is whole, with what its manifest says."""

    checkpoint: Checkpoint
    optimizer: str
    variables: list[Variable]
    file: str


def last_checkpoint(directory: str | os.PathLike[str]) -> Checkpoint | None:
    """The newest whole checkpoint in a directory of ``ctx.checkpoint``, which is the one that the
    next cluster restores; None if there is none. For the driver, between two clusters. It reads all
    of the checkpoint, to verify it.

    Args:
        directory: as in ``ctx.checkpoint``. A path without a scheme is on the default file system
            of this process' SparkContext; on this host, if there is none, as with Spark Connect.

    Raises OSError; :class:`tfos.errors.BadInputError` if all checkpoints are damaged.
    """
    # Programs on nodes may do without Spark.
    spark = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    context = getattr(spark, "_active_spark_context", None)
    path = directory if context is None else path_in_session(context, directory)
    saved = CheckpointDirectory(path).newest()
    return None if saved is None else saved.checkpoint


def path_in_session(context: Any, directory: str | os.PathLike[str]) -> str:
    """The URI that ``ctx.checkpoint`` makes of a path on the nodes of a SparkContext, or of a
    session of Spark Connect. Hadoop's client of this process gets the session's settings, as nodes
    have them."""
    path = paths.in_session(context, directory)
    if scheme_of(path) != "file":
        hadoop_settings.adopt(hadoop_settings.of_session(context))
    return path


class CheckpointDirectory:
    """The directory of one training.

    Owner and lifetime: the caller; holds nothing open. Threads: one at a time. Several
    processes may read, and write too: each checkpoint is of one of them. Errors: OSError with the
    path.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        self.name = os.fspath(directory)
        self._access, self._path = access_for(directory)
        #: The numbers of those that were found damaged.
        self._damaged: set[int] = set()

    def try_to_write(self) -> None:
        """Makes the directory, and a file in it that it deletes again."""
        self._access.mkdirs(self._path)
        path = f"{self._path}/.tfos-{uuid.uuid4().hex}"
        with self._access.create(path) as file:
            file.write(b"can this be written?\n")
        self._access.delete(path)

    def write(self, state: State) -> Checkpoint:
        """Writes one, which is there when this returns. A process that is killed meanwhile leaves a
        folder that does not count."""
        folder = self._folder(max(self._numbers(), default=0) + 1)
        # Where a rename is a copy, after what was there is deleted, nothing is renamed.
        renames = not self._access.creates_whole(folder)
        # Another process may write one with the same number.
        unique = uuid.uuid4().hex[:12]
        file, manifest = f"state-{unique}.npz", f"{_MANIFEST}-{unique}"
        self._access.mkdirs(folder)
        try:
            size, digest = self._write_file(
                f"{folder}/{file}", lambda to: _write_arrays(to, state.variables, state.callbacks)
            )
            text = _encoded(
                {
                    "format": FORMAT,
                    "epoch": state.epoch,
                    "step": state.step,
                    "optimizer": state.optimizer,
                    "variables": [
                        [one.name, one.dtype, list(one.shape)] for one, _ in state.variables
                    ],
                    "file": file,
                    "bytes": size,
                    "file_sha256": digest,
                }
            )
            if renames:
                self._write_file(f"{folder}/{manifest}", lambda to: to.write(text))
        except BaseException:
            # A full disk needs the room.
            with contextlib.suppress(OSError):
                self._access.delete(f"{folder}/{file}")
                self._access.delete(f"{folder}/{manifest}")
                self._access.delete_if_empty(folder)
            raise
        if renames:
            self._access.rename(f"{folder}/{manifest}", f"{folder}/{_MANIFEST}")
        else:
            self._write_file(f"{folder}/{_MANIFEST}", lambda to: to.write(text))
        if isinstance(self._access, LocalFiles):
            # Before older ones go: a host that loses its power may forget names of synced files.
            _sync_directory(folder)
            _sync_directory(self._path)
        return Checkpoint(folder, state.epoch, state.step)

    def prune(self, keep: int) -> None:
        """Deletes all but the newest ``keep``, those that were found damaged, and what processes
        that were killed have left. What can't be deleted stays, and keeps nothing else there: then
        raises its OSError, the first one, at the end."""
        failed: OSError | None = None
        good = [number for number in self._committed() if number not in self._damaged]
        for number in self._numbers():
            if good and number < good[0] and number not in good[:keep]:
                folder = self._folder(number)
                try:
                    self._access.delete(f"{folder}/{_MANIFEST}")  # From here on it does not count.
                    self._access.delete(folder)
                except OSError as error:
                    failed = failed or error
        if failed is not None:
            raise failed

    def newest(self) -> Saved | None:
        """The newest one that is whole; a warning names those that are not. None if there is none.
        Raises :class:`BadInputError` if there are some and all are damaged; OSError if one can't be
        read, which may be whole: the next attempt may succeed."""
        why = ""
        for number in self._committed():
            try:
                saved = self._verified(number)
            except _DamageError as error:
                self._damaged.add(number)
                why = f"{self._folder(number)} is damaged: {error}"
                warnings.warn(
                    f"{why}. The checkpoint before it is looked for", RuntimeWarning, stacklevel=2
                )
                continue
            return saved
        if why:
            raise BadInputError(
                f"{self.name} has checkpoints, and none of them can be read. {why}. Delete them to "
                "begin anew, or give another directory"
            )
        return None

    def values(self, saved: Saved) -> Iterator[np.ndarray]:
        """The values of the variables, one after the other, in the order of ``saved.variables``.
        Types that NumPy lacks are unsigned integers of their size."""
        with (
            self._access.open(f"{saved.checkpoint.path}/{saved.file}") as file,
            zipfile.ZipFile(file) as archive,
        ):
            for place, variable in enumerate(saved.variables):
                yield _read_array(archive, _member(place, variable))

    def callbacks(self, saved: Saved) -> callback_state.State:
        """What callbacks remembered; {} in a checkpoint of a tfos that did not save it."""
        with (
            self._access.open(f"{saved.checkpoint.path}/{saved.file}") as file,
            zipfile.ZipFile(file) as archive,
        ):
            if _CALLBACKS not in archive.namelist():
                return {}
            state: callback_state.State = callback_state.decoded(
                archive.read(_CALLBACKS), lambda name: _read_array(archive, name)
            )
            return state

    def _folder(self, number: int) -> str:
        return f"{self._path}/checkpoint-{number:08d}"

    def _numbers(self) -> list[int]:
        """The numbers of all folders, also those that were not written to their end."""
        try:
            listed = self._access.list(self._path)
        except FileNotFoundError:
            return []
        found = [_FOLDER.fullmatch(posixpath.basename(status.path)) for status in listed]
        return [int(match[1]) for match in found if match]

    def _committed(self) -> list[int]:
        """The newest first."""
        return [
            number
            for number in sorted(self._numbers(), reverse=True)
            if self._access.status(f"{self._folder(number)}/{_MANIFEST}") is not None
        ]

    def _verified(self, number: int) -> Saved:
        folder = self._folder(number)
        with self._access.open(f"{folder}/{_MANIFEST}") as file:
            manifest = _decoded(file.read())
        if manifest["format"] != FORMAT:
            raise BadInputError(
                f"{folder} has format {manifest['format']}, and this tfos knows {FORMAT}: take the "
                "tfos that wrote it"
            )
        summed = _Summed(None)
        try:
            with self._access.open(f"{folder}/{manifest['file']}") as file:
                while block := file.read(_BLOCK_BYTES):
                    summed.write(block)
        except FileNotFoundError as error:
            raise _DamageError(f"{manifest['file']} is not there") from error
        if summed.size != manifest["bytes"]:
            raise _DamageError(f"{manifest['file']} has {summed.size} bytes of {manifest['bytes']}")
        if summed.digest() != manifest["file_sha256"]:
            raise _DamageError(f"{manifest['file']} has other bytes than were written")
        return Saved(
            Checkpoint(folder, manifest["epoch"], manifest["step"]),
            manifest["optimizer"],
            [Variable(name, dtype, tuple(shape)) for name, dtype, shape in manifest["variables"]],
            manifest["file"],
        )

    def _write_file(self, path: str, write: Callable[[Any], Any]) -> tuple[int, str]:
        """Bytes and SHA-256 of a file that ``write`` has written."""
        with self._access.create(path) as file:
            summed = _Summed(file)
            write(summed)
            file.flush()
            # Hadoop's files have arrived when they are closed.
            with contextlib.suppress(io.UnsupportedOperation):
                os.fsync(file.fileno())
        return summed.size, summed.digest()


class _DamageError(Exception):
    """A checkpoint has not the bytes that were written."""


def _sync_directory(path: str) -> None:
    """Has the names in a directory of this host survive a loss of power."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # Some file systems have no such call.
            raise
    finally:
        os.close(directory)


class _Summed:
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


def _write_arrays(
    file: Any,
    variables: Sequence[tuple[Variable, np.ndarray]],
    callbacks: callback_state.State,
) -> None:
    """An archive as ``numpy.load`` reads it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for place, (variable, value) in enumerate(variables):
            # Such as bfloat16, which is not NumPy's own.
            plain = value if value.dtype.isbuiltin == 1 else value.view(f"u{value.itemsize}")
            _write_array(archive, _member(place, variable), plain)
        numbers = itertools.count()

        def keep(array: np.ndarray) -> str:
            name = f"callbacks/{next(numbers):05d}.npy"
            _write_array(archive, name, array)
            return name

        # They may remember weights as large as the model's.
        archive.writestr(_CALLBACKS, callback_state.encoded(callbacks, keep))


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(name, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as member:
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
    return array


def _member(place: int, variable: Variable) -> str:
    return f"{place:05d} {variable.name}.npy"


def _encoded(manifest: dict[str, Any]) -> bytes:
    """As the file has it: with a sum of its own."""
    text = json.dumps(manifest, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (json.dumps({**manifest, "sha256": digest}, indent=1, sort_keys=True) + "\n").encode()


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(text)
        del manifest["sha256"]
        whole = _encoded(manifest) == text
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        raise _DamageError(f"{_MANIFEST} has other bytes than were written")
    return manifest
