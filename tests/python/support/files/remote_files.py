"""Files of any file system as tests put and look at them."""

from __future__ import annotations

import os
import posixpath

from tfos.files.access import access_for


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    access, path = access_for(os.fspath(path))
    with access.create(path) as file:
        file.write(content)


def read_bytes(path: str | os.PathLike) -> bytes:
    access, path = access_for(os.fspath(path))
    with access.open(path) as file:
        return file.read()


def names_in(directory: str | os.PathLike) -> list[str]:
    access, path = access_for(os.fspath(directory))
    return sorted(posixpath.basename(status.path) for status in access.list(path))


def visible_in(directory: str | os.PathLike) -> list[str]:
    """Those that Spark and Hadoop take for data."""
    return [name for name in names_in(directory) if not name.startswith(("_", "."))]
