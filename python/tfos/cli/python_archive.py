"""A virtual environment as an archive that Spark unpacks on every executor.

Moved elsewhere, a virtual environment still works by its ``bin/python``, which finds everything
relative to itself; only the scripts in ``bin`` keep the old place in their first line, and nothing
of tfos uses those. It has no interpreter: every host needs the one that it was made with, at the
same path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from tfos.errors import BadInputError, TfosError
from tfos.files.access import access_for

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip", ".jar")

#: Wheels are mostly machine code: more effort takes minutes and gains a tenth.
_COMPRESSION_LEVEL = 1
_CHECK_TIMEOUT_SECONDS = 120
_PRIVATE = ("pip.conf", ".netrc", ".pypirc", ".env")


def check(environment: Path) -> None:
    """Raises :class:`tfos.errors.BadInputError` unless it is a virtual environment that can be
    packed and that holds tfos."""
    if not (environment / "pyvenv.cfg").is_file():
        raise BadInputError(
            f"{environment} is not a virtual environment (it has no pyvenv.cfg): pass one made "
            "with `python -m venv`, or an archive such as conda-pack makes of a conda environment"
        )
    for origin in environment.glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
        try:
            source = json.loads(origin.read_text())
        except ValueError as error:
            raise BadInputError(
                f"{origin} is not JSON ({error}): install that package again"
            ) from error
        if source.get("dir_info", {}).get("editable"):
            raise BadInputError(
                f"{origin.parent.name} is installed editable in {environment}, so its files are "
                "elsewhere and would be missing on the cluster: install it without -e"
            )
    # -I: only what is in it counts, not PYTHONPATH or the working directory.
    try:
        done = subprocess.run(
            [environment / "bin" / "python", "-I", "-c", "import tfos"],
            text=True,
            capture_output=True,
            timeout=_CHECK_TIMEOUT_SECONDS,
        )
    except OSError as error:
        raise BadInputError(
            f"{environment / 'bin' / 'python'} can't be run ({error.strerror}): make the "
            "environment again"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise BadInputError(
            f"{environment / 'bin' / 'python'} took more than {_CHECK_TIMEOUT_SECONDS} "
            "seconds to import tfos: is its disk slow?"
        ) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it ended and said nothing"])[-1]
        raise BadInputError(
            f"{environment} can't import tfos ({reason}): install the wheel into it"
        )


def name_of(environment: Path) -> str:
    """The name of its archive: the same for the same content, another one for any other.

    Bytecode does not count: it follows from the rest, and importing a module adds some.
    """
    digest = hashlib.sha256()
    for path in _entries(environment):
        if path.suffix == ".pyc":
            continue
        relative = str(path.relative_to(environment))
        if path.is_symlink():
            what = os.readlink(path).encode()
        elif path.is_file():
            with open(path, "rb") as file:
                what = hashlib.file_digest(file, "sha256").digest()
        else:
            continue
        mode = b"x" if path.stat(follow_symlinks=False).st_mode & 0o100 else b"-"
        digest.update(relative.encode(errors="surrogateescape") + b"\0" + mode + what + b"\0")
    # Spark reads the name as part of a URI.
    name = re.sub(r"[^\w.-]", "-", environment.name.lstrip("."))
    return f"{name}-{digest.hexdigest()[:20]}.tar.gz"


def pack(environment: Path, archive: Path) -> None:
    """Writes the archive, unless it is there already. It is whole or not there."""
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = archive.with_name(f".{archive.name}.{uuid.uuid4().hex}")
    try:
        # For this user alone: nobody knows what a program has put into its environment.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with (
            open(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION_LEVEL) as tar,
        ):
            for path in _entries(environment):
                # With its times, by which bytecode knows that it is up to date.
                tar.add(path, str(path.relative_to(environment)), recursive=False)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)


def upload(archive: Path, directory: str, say: Callable[[str], None]) -> str:
    """Puts it into a directory, such as one on HDFS, unless it is there already; returns its
    URI."""
    target = f"{directory.rstrip('/')}/{archive.name}"
    access, path = access_for(target)
    if access.status(path) is None:
        say(f"uploading {archive} to {directory}")
        access.mkdirs(access_for(directory)[1])
        partial = f"{path}.{uuid.uuid4().hex}"
        try:
            with open(archive, "rb") as source, access.create(partial) as sink:
                while block := source.read(1 << 20):
                    sink.write(block)
            try:
                access.rename(partial, path)
            except (OSError, TfosError):
                # Another submission may have put it there meanwhile.
                if access.status(path) is None:
                    raise
        finally:
            access.delete(partial)
    return target


def _entries(environment: Path) -> Iterator[Path]:
    """All in it but pip's own settings, in an order that depends on the names only.

    Hosts install nothing, and those settings may hold passwords of package indexes.
    """
    for folder, folders, files in os.walk(environment):
        folders.sort()
        if Path(folder) == environment:
            files = [name for name in files if name not in _PRIVATE]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*links, *files]):
            yield Path(folder, name)
