"""Finds the file system that serves a path.

A :class:`FileAccess` serves the URIs of some schemes; :func:`access_for` finds the one for a path.
There is one for files of this host (paths without a scheme, and ``file:``), and one for Hadoop's
file systems (:mod:`tfos.files.hadoop`), whose schemes :func:`tfos.files.hadoop_client.schemes`
lists.
"""

from __future__ import annotations

import os
import re

from tfos.errors import BadInputError
from tfos.files import hadoop_client
from tfos.files.interface import FileAccess
from tfos.files.local import LocalFiles

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?=/)")
_LOCAL = LocalFiles()


def scheme_of(path: str | os.PathLike[str]) -> str:
    """The scheme of a URI in small letters, "" for a plain path."""
    found = _SCHEME.match(os.fspath(path))
    return found.group(1).lower() if found else ""


def access_for(path: str | os.PathLike[str]) -> tuple[FileAccess, str]:
    """What serves ``path`` (a plain one is of this host), and the path in the form that it takes.

    Raises :class:`BadInputError` for a scheme that nobody serves.
    """
    path = os.fspath(path)
    scheme = scheme_of(path)
    if scheme in hadoop_client.schemes():
        # It needs this module, and programs without such paths don't need it.
        from tfos.files import hadoop

        return hadoop.HadoopFiles(), hadoop.normalized(path)
    if scheme not in ("", "file"):
        raise BadInputError(
            f"{path}: no file system is configured for {scheme}://; there are file, "
            f"{', '.join(hadoop_client.schemes())}, and further file systems of Hadoop's if "
            f"{hadoop_client.SCHEMES_VARIABLE} lists them, such as {scheme}"
        )
    if scheme == "file":
        authority, _, rest = (
            path[len("file:") :].removeprefix("//").partition("/")
            if path.startswith("file://")
            else ("", "", path[len("file:") :].lstrip("/"))
        )
        if authority not in ("", "localhost"):
            raise BadInputError(
                f"{path}: {authority} is taken for a host; write file:///{authority}/{rest}"
            )
        path = "/" + rest  # As it is: Hadoop decodes no %20 either.
    return _LOCAL, os.path.abspath(path)


def native_path(path: str | os.PathLike[str]) -> str:
    """What the native reader and writer of TFRecords are to open for any path or URI."""
    access, path = access_for(path)
    return access.native_path(path)
