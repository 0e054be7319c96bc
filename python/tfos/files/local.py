"""The files of this host: paths without a scheme, and ``file:``."""

from __future__ import annotations

import glob
import os
import shutil
from typing import IO

from tfos.files.interface import FileStatus, Paths, Statuses


class LocalFiles:
    """The file system of this host. See :class:`FileAccess`."""

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_directory = os.path.isdir(path)
        return FileStatus(path, is_directory, 0 if is_directory else found.st_size)

    def list(self, directory: str) -> Statuses:
        found = (
            self.status(os.path.join(directory, name)) for name in sorted(os.listdir(directory))
        )
        return [status for status in found if status is not None]

    def glob(self, pattern: str) -> Paths:
        return sorted(glob.glob(pattern))

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb")

    def create(self, path: str) -> IO[bytes]:
        return open(path, "wb")

    def creates_whole(self, path: str) -> bool:
        return False

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
