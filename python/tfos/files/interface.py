"""What tfos does with files of records, whatever file system they are on."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterator
from typing import IO, NamedTuple, Protocol


class FileStatus(NamedTuple):
    """A file or directory as it was when it was looked at."""

    path: str
    is_directory: bool
    #: Bytes; 0 for a directory.
    size: int
    #: Itself a link of this host, to what the rest says.
    is_link: bool = False


#: In :class:`FileAccess` the name ``list`` is a method's.
Statuses = list[FileStatus]
Paths = list[str]


class FileAccess(Protocol):
    """A file system. Paths, given and returned, are in the form that :func:`access_for` returns.

    Owner and lifetime: holds nothing open; may be pickled. Threads: any.
    Errors: :class:`OSError` with the path, FileNotFoundError where there is nothing.
    """

    def status(self, path: str) -> FileStatus | None:
        """What is at ``path``, links followed; None where there is nothing."""

    def list(self, directory: str) -> Statuses:
        """What is directly in ``directory``, by name."""

    def glob(self, pattern: str) -> Paths:
        """What matches ``* ? [...]``, within a directory each, in order of the names."""

    def open(self, path: str) -> IO[bytes]:
        """A file to read from; the caller closes it."""

    def create(self, path: str) -> IO[bytes]:
        """A new file, to write to; what was there is lost. The caller closes it, and only then all
        of it has arrived."""

    def creates_whole(self, path: str) -> bool:
        """Whether a file of ``create`` appears when it is closed, with all in it, and until then
        what was there stays: as in object stores, whose ``rename`` is a copy."""

    def rename(self, source: str, target: str) -> None:
        """Moves a file within its file system, at once unless ``creates_whole``; the target's
        directory must exist."""

    def delete(self, path: str) -> None:
        """Deletes a file, or a directory and all in it; nothing happens where nothing is."""

    def delete_if_empty(self, directory: str) -> None:
        """Deletes a directory unless something is in it, or it is not there."""

    def mkdirs(self, directory: str) -> None:
        """Makes a directory and those above it, as far as they are not there."""

    def native_path(self, path: str) -> str:
        """What the native reader and writer of TFRecords are to open. Raises
        :class:`tfos.errors.BadInputError` for a name that they can't take, as it is not UTF-8."""


def has_wildcard(path: str) -> bool:
    """Whether a path is a pattern."""
    return glob.has_magic(path)


def as_python_glob(pattern: str) -> str:
    """A pattern for Python's fnmatch and glob, to which ``[^x]``, as Hadoop and shells have it, is
    only ``[!x]``."""
    return pattern.replace("[^", "[!")


def parent_of(path: str) -> str:
    """The directory above a path in the form that :func:`access_for` returns; a root is its own."""
    scheme, is_uri, rest = path.partition("://")
    if not is_uri:
        return os.path.dirname(path)
    authority, _, below = rest.partition("/")
    return f"{scheme}://{authority}/{posixpath.dirname(below)}"


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or directory of that name, as Spark's do."""
    if name.startswith("_") and "=" not in name:  # _day=1 is a directory of a column.
        return True
    # What `hdfs dfs -put` has not copied to its end ends so.
    return name.startswith(".") or name.endswith("._COPYING_")


def walk(access: FileAccess, directory: str) -> Iterator[FileStatus]:
    """The files below a directory that are not hidden, in order of their names."""
    for status in access.list(directory):
        if is_hidden(os.path.basename(status.path)):
            continue
        if status.is_directory:
            yield from walk(access, status.path)
        else:
            yield status
