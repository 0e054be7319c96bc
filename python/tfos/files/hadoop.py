"""Files that Hadoop reaches, such as those of HDFS, as :class:`tfos.files.interface.FileAccess`."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import posixpath
from typing import IO, Any

from tfos.files.hadoop_client import client
from tfos.files.interface import FileStatus, Paths, Statuses, as_python_glob, has_wildcard

#: Schemes that were tried.
_OBJECT_STORES = frozenset({"s3a"})


class HadoopFiles:
    """Whatever file system a URI names. See :class:`tfos.files.interface.FileAccess`.

    Java's threads stay behind in a fork: a child of a process that has used it gets an error.
    """

    def status(self, path: str) -> FileStatus | None:
        try:
            is_directory, size, _ = client().status(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStatus(path, is_directory, 0 if is_directory else size)

    def list(self, directory: str) -> Statuses:
        return [
            FileStatus(posixpath.join(directory, name), is_directory, 0 if is_directory else size)
            for name, (is_directory, size, _) in sorted(client().list(directory))
        ]

    def glob(self, pattern: str) -> Paths:
        root, parts = _parts_of(pattern)
        found = [root]
        for number, part in enumerate(parts):
            if has_wildcard(part):
                above = number + 1 < len(parts)
                found = [
                    status.path
                    for directory in found
                    for status in self._matches(directory, part)
                    if status.is_directory or not above
                ]
            else:
                found = [posixpath.join(directory, part) for directory in found]
        if parts and not has_wildcard(parts[-1]):
            found = [path for path in found if self.status(path) is not None]
        return sorted(found)

    def _matches(self, directory: str, pattern: str) -> Statuses:
        try:
            listed = self.list(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []  # Nothing in there matches.
        return [status for status in listed if _matches(posixpath.basename(status.path), pattern)]

    def open(self, path: str) -> IO[bytes]:
        return io.BufferedReader(_Reader(path))

    def create(self, path: str) -> IO[bytes]:
        return io.BufferedWriter(_Writer(client().create(path)))

    def creates_whole(self, path: str) -> bool:
        return path.partition(":")[0] in _OBJECT_STORES

    def rename(self, source: str, target: str) -> None:
        client().rename(source, target)

    def delete(self, path: str) -> None:
        try:
            client().delete(path, True)
        except FileNotFoundError:
            return  # Nothing is there, or somebody else was faster.

    def delete_if_empty(self, directory: str) -> None:
        try:
            if not client().list(directory):
                client().delete(directory, False)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # Somebody has put something into it meanwhile.
                raise

    def mkdirs(self, directory: str) -> None:
        client().mkdirs(directory)

    def native_path(self, path: str) -> str:
        client()  # The native side has the same one, which must know where jars are.
        return path


def normalized(uri: str) -> str:
    """A URI as Hadoop's Path has it: ``scheme://authority/path`` without ``.``, ``..`` and
    ``//``."""
    scheme, _, rest = uri.partition(":")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, _, path = rest[2:].partition("/")
    return f"{scheme.lower()}://{authority}{posixpath.normpath('/' + path.lstrip('/'))}"


def _parts_of(uri: str) -> tuple[str, list[str]]:
    """The root of a URI's file system, and the names on the way to its path."""
    scheme, _, rest = uri.partition("://")
    authority, _, path = rest.partition("/")
    return f"{scheme}://{authority}/", [part for part in path.split("/") if part]


def _matches(name: str, pattern: str) -> bool:
    # As glob has it for files of this host.
    return (pattern.startswith(".") or not name.startswith(".")) and fnmatch.fnmatchcase(
        name, as_python_glob(pattern)
    )


class _Reader(io.RawIOBase):
    """A file that is read at any place. Owner: the BufferedReader around it. Threads: one at a
    time."""

    def __init__(self, path: str):
        self._path = path
        self._file: Any = client().open(path)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.read_into(self._position, buffer)
        self._position += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if base is None:
            base = client().status(self._path)[1]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "go to a place before the begin of the file", self._path)
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._file = None
        super().close()


class _Writer(io.RawIOBase):
    """A file that is written from its begin on. Owner: the BufferedWriter around it."""

    def __init__(self, file: Any):
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._file.close()
        finally:
            super().close()
