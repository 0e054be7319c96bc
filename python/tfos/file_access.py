"""What tfos does with files of records, whatever file system they are on, and who does it where.

A :class:`FileAccess` serves the URIs of some schemes; :func:`access_for` finds the one for a path.
There is one for files of this host (paths without a scheme, and ``file:``), and one for Hadoop's
file systems (:mod:`tfos.hadoop_files`), whose schemes :func:`tfos.hadoop_client.schemes` lists.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import IO, Iterator, NamedTuple, Protocol

from tfos import hadoop_client
from tfos.errors import BadInputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?=/)")


class FileStatus(NamedTuple):
    """A file or directory as it was when it was looked at."""

    path: str
    is_directory: bool
    #: Bytes; 0 for a directory.
    size: int


class FileAccess(Protocol):
    """A file system. Paths, given and returned, are in the form that :func:`access_for` returns.

    Owner and lifetime: holds nothing open; may be pickled. Threads: any.
    Errors: :class:`OSError` with the path, FileNotFoundError where there is nothing.
    """

    def status(self, path: str) -> FileStatus | None:
        """What is at ``path``, links followed; None where there is nothing."""

    def list(self, directory: str) -> list[FileStatus]:
        """What is directly in ``directory``, by name."""

    def glob(self, pattern: str) -> list[str]:
        """What matches ``* ? [...]``, within a directory each, in order of the names."""

    def open(self, path: str) -> IO[bytes]:
        """A file to read from; the caller closes it."""

    def create(self, path: str) -> IO[bytes]:
        """A new file, to write to; what was there is lost. The caller closes it, and only then all
        of it has arrived."""

    def rename(self, source: str, target: str) -> None:
        """Moves a file within its file system, at once; its directory has to be there."""

    def delete(self, path: str) -> None:
        """Deletes a file, or a directory and all in it; nothing happens where nothing is."""

    def delete_if_empty(self, directory: str) -> None:
        """Deletes a directory unless something is in it, or it is not there."""

    def mkdirs(self, directory: str) -> None:
        """Makes a directory and those above it, as far as they are not there."""

    def native_path(self, path: str) -> str:
        """What the native reader and writer of TFRecords are to open."""


class LocalFiles:
    """The file system of this host. See :class:`FileAccess`."""

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_directory = os.path.isdir(path)
        return FileStatus(path, is_directory, 0 if is_directory else found.st_size)

    def list(self, directory: str) -> list[FileStatus]:
        found = (self.status(os.path.join(directory, name)) for name in sorted(os.listdir(directory)))
        return [status for status in found if status is not None]

    def glob(self, pattern: str) -> list[str]:
        return sorted(glob.glob(pattern))

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb")

    def create(self, path: str) -> IO[bytes]:
        return open(path, "wb")

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def delete(self, path: str) -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return  # Somebody else was faster: it is gone, as was asked for.

    def delete_if_empty(self, directory: str) -> None:
        if os.path.isdir(directory) and not os.listdir(directory):
            os.rmdir(directory)

    def mkdirs(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)

    def native_path(self, path: str) -> str:
        return path


_LOCAL = LocalFiles()


def scheme_of(path: str) -> str:
    """The scheme of a URI in small letters, "" for a plain path."""
    found = _SCHEME.match(path)
    return found.group(1).lower() if found else ""


def access_for(path: str) -> tuple[FileAccess, str]:
    """Who serves ``path`` (a plain one is of this host), and the path in the form that it takes.

    Raises :class:`BadInputError` for a scheme that nobody serves.
    """
    scheme = scheme_of(path)
    if scheme in hadoop_client.schemes():
        # It needs this module, and programs without such paths don't need it.
        from tfos import hadoop_files

        return hadoop_files.HadoopFiles(), hadoop_files.normalized(path)
    if scheme not in ("", "file"):
        raise BadInputError(
            f"{path}: nobody is known who serves {scheme}://; there are file, "
            f"{', '.join(hadoop_client.schemes())}, and further file systems of Hadoop's if "
            f"{hadoop_client.SCHEMES_VARIABLE} lists them, such as {scheme}"
        )
    if scheme == "file":
        authority, _, rest = path[len("file:"):].removeprefix("//").partition("/") \
            if path.startswith("file://") else ("", "", path[len("file:"):].lstrip("/"))
        if authority not in ("", "localhost"):
            raise BadInputError(f"{path}: {authority} is taken for a host; write file:///{authority}/{rest}")
        path = "/" + rest  # As it is: Hadoop decodes no %20 either.
    return _LOCAL, os.path.abspath(path)


def native_path(path: str | os.PathLike[str]) -> str:
    """What the native reader and writer of TFRecords are to open for any path or URI."""
    access, path = access_for(os.fspath(path))
    return access.native_path(path)


def has_wildcard(path: str) -> bool:
    """Whether a path is a pattern."""
    return glob.has_magic(path)


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or directory of that name, as Spark's do."""
    return name.startswith((".", "_"))


def walk(access: FileAccess, directory: str) -> Iterator[FileStatus]:
    """The files below a directory that are not hidden, in order of their names."""
    for status in access.list(directory):
        if is_hidden(os.path.basename(status.path)):
            continue
        if status.is_directory:
            yield from walk(access, status.path)
        else:
            yield status
