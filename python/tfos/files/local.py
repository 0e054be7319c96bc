"""The files of this host: paths without a scheme, and ``file:``."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import stat
from typing import IO, Any

from tfos.errors import BadInputError
from tfos.files.interface import FileStatus, Paths, Statuses, as_python_glob

#: Each needs another job that deletes a directory in the moment in which this one has made it.
_MKDIRS_TRIES = 10


class LocalFiles:
    """The file system of this host. See :class:`FileAccess`."""

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_directory = stat.S_ISDIR(found.st_mode)
        size = 0 if is_directory else found.st_size
        return FileStatus(path, is_directory, size, os.path.islink(path))

    def list(self, directory: str) -> Statuses:
        found = (
            self.status(os.path.join(directory, name)) for name in sorted(os.listdir(directory))
        )
        return [status for status in found if status is not None]

    def glob(self, pattern: str) -> Paths:
        return sorted(glob.glob(as_python_glob(pattern)))

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
                shutil.rmtree(path, onerror=_unless_gone)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return  # Somebody else was faster: it is gone, as was asked for.

    def delete_if_empty(self, directory: str) -> None:
        try:
            os.rmdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            # Somebody may put something into it at any time, even if it was looked at before.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def mkdirs(self, directory: str) -> None:
        for left in reversed(range(_MKDIRS_TRIES)):
            try:
                os.makedirs(directory, exist_ok=True)
                return
            except (FileNotFoundError, FileExistsError):
                # Somebody may have deleted an empty one meanwhile: it, or one of those above it.
                if not left:
                    raise

    def native_path(self, path: str) -> str:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise BadInputError(f"{path!r}: this name is not UTF-8; rename the file") from None
        return path


def _unless_gone(_function: Any, _path: str, error: Any) -> None:
    # Somebody else deletes here, too. What is left is still to be deleted.
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
