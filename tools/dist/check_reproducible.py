#!/usr/bin/env python3
"""Checks that a release comes out the same in another folder, at another time, by another user.

    tools/dist/check_reproducible.py [--machine x86_64] [--python 3.11] [--folder FOLDER]

`make check-reproducible` runs it. Makes the release of the last commit here, as `make dist` does,
and once more from a clone in another folder: with files of another time that others may not read,
in another time zone and language, and without ccache, so everything is compiled again. Prints what
differs, down to the members of archives, and fails if anything does.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import make_dist
from targets import ROOT, TARGETS

#: A time that no file of this checkout has, but one that zip archives can hold.
LONG_AGO = 1_000_000_000
#: What a release must not depend on.
ELSEWHERE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"}


def members(data: bytes) -> dict[str, str]:
    """What is known of each member of an archive, and a hash of its content; else nothing."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {
                info.filename: f"{info.date_time} mode {info.external_attr >> 16:o} "
                f"{hashlib.sha256(archive.read(info)).hexdigest()}"
                for info in archive.infolist()
            }
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            found = {}
            for info in archive:
                content = archive.extractfile(info)
                digest = hashlib.sha256(content.read() if content else b"").hexdigest()
                found[info.name] = (
                    f"{info.mtime} mode {info.mode:o} {info.uid}:{info.gid} "
                    f"{info.uname}:{info.gname} {digest}"
                )
            return found
    except tarfile.ReadError:
        return {}


def differences(first: Path, second: Path) -> list[str]:
    """What differs between two folders with the files of a release."""
    found = []
    names = {folder: {file.name for file in folder.iterdir()} for folder in (first, second)}
    for name in sorted(names[first] | names[second]):
        missing = [folder for folder in (first, second) if name not in names[folder]]
        if missing:
            found.append(f"{name}: is not in {missing[0]}")
            continue
        one, other = (folder.joinpath(name).read_bytes() for folder in (first, second))
        if one == other:
            continue
        found.append(f"{name}: {len(one)} bytes and {len(other)} bytes differ")
        before, after = members(one), members(other)
        found += [
            f"{name}: {member}: {before.get(member, 'missing')}, "
            f"then {after.get(member, 'missing')}"
            for member in sorted(before.keys() | after.keys())
            if before.get(member) != after.get(member)
        ]
        if before == after and before:
            found.append(
                f"{name}: its members are the same, and in another order or packed otherwise"
            )
    return found


def clone(folder: Path) -> None:
    """Makes ``folder`` with the last commit of this checkout, in old files that only their owner
    may read, and with the pinned sources, whose hashes were checked."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    shutil.copytree(
        make_dist.BUILD / "downloads", folder / "build" / "dist" / "downloads", symlinks=True
    )
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=",".join(TARGETS), help="processors (%(default)s)")
    parser.add_argument(
        "--python", default=",".join(make_dist.PYTHONS), help="CPythons (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="where the other folder is made; it stays")
    parser.add_argument("--ccache", action="store_true", help="compile with ccache there, too")
    options = parser.parse_args()
    state = subprocess.run(
        ["git", "-C", ROOT, "status", "--porcelain"], check=True, capture_output=True, text=True
    ).stdout
    if state:
        print(
            f"A release is made from a commit; commit or remove these first:\n{state}",
            file=sys.stderr,
        )
        return 1
    arguments = ["--machine", options.machine, "--python", options.python]
    make = "tools/dist/make_dist.py"
    subprocess.run([sys.executable, ROOT / make, *arguments], check=True)
    with tempfile.TemporaryDirectory(prefix="release-") as temporary:
        folder = (options.folder or Path(temporary)).resolve() / "another-folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        umask = os.umask(0o077)
        try:
            clone(folder)
            environment = os.environ | ELSEWHERE
            if not options.ccache:
                environment["CCACHE_DISABLE"] = "1"
            print(f"Making the same release in {folder}", flush=True)
            subprocess.run([sys.executable, folder / make, *arguments], check=True, env=environment)
        finally:
            os.umask(umask)
        found = differences(make_dist.OUT, folder / "dist")
    print(
        "\n".join(found)
        or f"The {len(list(make_dist.OUT.iterdir()))} files of dist/ came out "
        "the same in another folder"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
