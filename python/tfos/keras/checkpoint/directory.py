"""The checkpoints of a training: what is in their directory, on any file system of
:mod:`tfos.files`.

docs/formats/checkpoint.md has the format. :func:`last_checkpoint` tells the driver what is there;
nodes write and restore with ``ctx.checkpoint``, :mod:`tfos.keras.checkpoint.saving`. What several
nodes write together is in :mod:`tfos.keras.checkpoint.parts`. Needs neither Keras nor TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
import re
import sys
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tfos.errors import BadInputError
from tfos.files import hadoop_settings, paths
from tfos.files.access import access_for, scheme_of
from tfos.files.local import LocalFiles
from tfos.keras import callback_state
from tfos.keras.checkpoint.archive import (
    CALLBACKS,
    TRAINED,
    DamageError,
    Summed,
    Trained,
    Values,
    Variable,
    decoded,
    encoded,
    read_array,
    write_arrays,
)

#: Of one archive, and of several that nodes have written.
FORMAT, FORMAT_OF_PARTS = 1, 2
_FOLDER = re.compile(r"checkpoint-(\d{8,})")
_MANIFEST = "manifest.json"
_BLOCK_BYTES = 4 << 20


class State(NamedTuple):
    """What a checkpoint is made of, in the memory of this process.

    Attributes:
        epoch: where training goes on, from 0.
        step: how many batches of that epoch it has trained on.
        optimizer: the name of its class.
        variables: each with its value, in the order of the model; without it where another node
            writes that.
        callbacks: what those that decide on the training remember.
        trained: the queue that Spark feeds, and which rows of the epoch were trained on, as uint64
            numbers; None where that is not known.
    """

    epoch: int
    step: int
    optimizer: str
    variables: Values
    callbacks: callback_state.State
    trained: Trained | None = None


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
    files: list[str]


class FileSum(NamedTuple):
    """An archive: its name in the folder, its size in bytes, and its SHA-256 in hexadecimal."""

    file: str
    size: int
    sha256: str


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
        # Another process may write one with the same number.
        unique = uuid.uuid4().hex[:12]
        file = f"state-{unique}.npz"

        def write_archive() -> dict[str, Any]:
            written = self._write_archive(
                folder, file, state.variables, state.callbacks, state.trained
            )
            return {
                "format": FORMAT,
                "file": written.file,
                "bytes": written.size,
                "file_sha256": written.sha256,
            }

        return self._commit(folder, unique, state, write_archive, lambda: [f"{folder}/{file}"])

    def _commit(
        self,
        folder: str,
        unique: str,
        state: State,
        write: Callable[[], dict[str, Any]],
        written: Callable[[], Iterable[str]],
    ) -> Checkpoint:
        """Has ``write`` write the archives of a checkpoint, and then the manifest, which makes it
        count.

        Args:
            folder: its folder.
            unique: no other writer has it in the names of its files.
            state: what the manifest describes.
            write: returns what the manifest says of the archives.
            written: the paths of what is to be deleted again after a failure.
        """
        # Where a rename is a copy, after what was there is deleted, nothing is renamed.
        renames = not self._access.creates_whole(folder)
        manifest = f"{folder}/{_MANIFEST}-{unique}"
        self._access.mkdirs(folder)
        try:
            text = encoded(
                {
                    **write(),
                    "epoch": state.epoch,
                    "step": state.step,
                    "optimizer": state.optimizer,
                    "variables": [
                        [one.name, one.dtype, list(one.shape)] for one, _ in state.variables
                    ],
                }
            )
            if renames:
                self._write_file(manifest, lambda to: to.write(text))
        except BaseException:
            # A full disk needs the room.
            with contextlib.suppress(OSError):
                for path in [*written(), manifest]:
                    self._access.delete(path)
                self._access.delete_if_empty(folder)
            raise
        if renames:
            self._access.rename(manifest, f"{folder}/{_MANIFEST}")
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
            except DamageError as error:
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
        with self._members(saved) as members:
            # By their places: another node may have written one, whose model has other names.
            names = {name.partition(" ")[0]: name for name in members}
            for place in range(len(saved.variables)):
                name = names[f"{place:05d}"]
                yield read_array(members[name], name)

    def callbacks(self, saved: Saved) -> callback_state.State:
        """What callbacks remembered; {} in a checkpoint of a tfos that did not save it."""
        with self._members(saved) as members:
            if CALLBACKS not in members:
                return {}
            state: callback_state.State = callback_state.decoded(
                members[CALLBACKS].read(CALLBACKS), lambda name: read_array(members[name], name)
            )
            return state

    def trained(self, saved: Saved) -> tuple[str, np.ndarray] | None:
        """The queue that Spark fed, and which rows of the epoch were trained on: a line of numbers
        for each chunk. None where that is not known."""
        with self._members(saved) as members:
            for name in members:
                if name.startswith(TRAINED):
                    return name[len(TRAINED) : -len(".npy")], read_array(members[name], name)
        return None

    @contextlib.contextmanager
    def _members(self, saved: Saved) -> Iterator[dict[str, zipfile.ZipFile]]:
        """The archives that have them, by their names."""
        with contextlib.ExitStack() as stack:
            members = {}
            for name in saved.files:
                file = stack.enter_context(self._access.open(f"{saved.checkpoint.path}/{name}"))
                archive = stack.enter_context(zipfile.ZipFile(file))
                members.update(dict.fromkeys(archive.namelist(), archive))
            yield members

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
            manifest = decoded(file.read(), _MANIFEST)
        if manifest["format"] == FORMAT:
            archives = [FileSum(manifest["file"], manifest["bytes"], manifest["file_sha256"])]
        elif manifest["format"] == FORMAT_OF_PARTS:
            archives = [FileSum(*part) for part in manifest["parts"]]
        else:
            raise BadInputError(
                f"{folder} has format {manifest['format']}, and this tfos knows {FORMAT} and "
                f"{FORMAT_OF_PARTS}: take the tfos that wrote it"
            )
        for archive in archives:
            self._verify(folder, archive)
        return Saved(
            Checkpoint(folder, manifest["epoch"], manifest["step"]),
            manifest["optimizer"],
            [Variable(name, dtype, tuple(shape)) for name, dtype, shape in manifest["variables"]],
            [archive.file for archive in archives],
        )

    def _verify(self, folder: str, archive: FileSum) -> None:
        """Raises :class:`DamageError` if a file has other bytes than were written, or none."""
        summed = Summed(None)
        try:
            with self._access.open(f"{folder}/{archive.file}") as file:
                while block := file.read(_BLOCK_BYTES):
                    summed.write(block)
        except FileNotFoundError as error:
            raise DamageError(f"{archive.file} is not there") from error
        if summed.size != archive.size:
            raise DamageError(f"{archive.file} has {summed.size} bytes of {archive.size}")
        if summed.digest() != archive.sha256:
            raise DamageError(f"{archive.file} has other bytes than were written")

    def _write_archive(
        self,
        folder: str,
        name: str,
        variables: Values,
        callbacks: callback_state.State | None,
        trained: Trained | None = None,
    ) -> FileSum:
        """Writes the file ``name``."""
        size, digest = self._write_file(
            f"{folder}/{name}", lambda to: write_arrays(to, variables, callbacks, trained)
        )
        return FileSum(name, size, digest)

    def _write_file(self, path: str, write: Callable[[Any], Any]) -> tuple[int, str]:
        """Bytes and SHA-256 of a file that ``write`` has written."""
        with self._access.create(path) as file:
            summed = Summed(file)
            write(summed)
            file.flush()
            # Hadoop's files have arrived when they are closed.
            with contextlib.suppress(io.UnsupportedOperation):
                os.fsync(file.fileno())
        return summed.size, summed.digest()


def unusable(directory: str, error: OSError) -> BadInputError:
    """What is raised when training begins with a directory that a node can't read or write."""
    return BadInputError(
        f"the directory of the checkpoints, {directory}, can't be used: {type(error).__name__}: "
        f"{error}. This node must be able to read and write it. Nothing was deleted"
    )


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
