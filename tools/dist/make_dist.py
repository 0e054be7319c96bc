#!/usr/bin/env python3
"""Makes a release in dist/: wheels, jar, source archive, checksums and what they consist of.

    tools/dist/make_dist.py [--machine x86_64,aarch64] [--python 3.11,3.12]

`make dist` runs it. Everything is built for an old C library (targets.py), from pinned sources
(sources.py). Two runs on one commit make the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import bill_of_materials
import check_wheel
import libraries
import wheels
from sysroot import Sysroot, run
from targets import GLIBC, TARGETS, Target

ROOT = wheels.ROOT
BUILD = ROOT / "build" / "dist"
OUT = ROOT / "dist"
PYTHONS = ("3.11", "3.12")
FLAGS = "-O2 -fPIC -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2"


def make_tools() -> tuple[Path, Path]:
    """A virtual environment with what makes wheels: its python, and the folder of its packages."""
    folder = BUILD / "venv"
    python = folder / "bin" / "python"
    requirements = ROOT / "tools" / "locked" / "release.txt"
    stamp = folder / "made-from"
    if not (stamp.exists() and stamp.read_text() == requirements.read_text()):
        print("Making the Python environment build/dist/venv", flush=True)
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--require-hashes",
            "-r",
            requirements,
        )
        stamp.write_text(requirements.read_text())
    (packages,) = folder.glob("lib/python3*/site-packages")
    return python, packages


def make_wheels(target: Target, pythons: list[str], stubs: dict[str, Path]) -> list[Path]:
    """The wheels for ``target``. ``stubs`` gets, and for another processor has, those of the
    extension for each Python."""
    python, packages = make_tools()
    folder = BUILD / target.machine
    sysroot = Sysroot(target, folder / "sysroot")
    sysroot.make(python)
    libraries.build(sysroot, BUILD / "downloads", folder / "libraries", FLAGS)
    made = []
    for version in pythons:
        native = target.machine == os.uname().machine
        wheel, stub = wheels.build(
            wheels.Python(version, target, BUILD / "downloads"),
            sysroot,
            folder / "libraries",
            folder / f"python{version}",
            packages,
            None if native else stubs[version],
        )
        if native:
            stubs[version] = stub
        made.append(wheel)
    return made


def loads_from(tag: str, machine: str) -> bool:
    """Whether what has the platform ``tag`` loads on ``machine`` from the oldest glibc on."""
    found = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", tag)
    oldest = tuple(int(part) for part in GLIBC.split("."))
    return found is not None and (int(found[1]), int(found[2])) <= oldest


def audit(wheel: Path, python: Path) -> str | None:
    """What auditwheel, of the packages of ``python``, has against ``wheel``, or None. It compares
    all that binaries need with the policies of https://peps.python.org/pep-0600/."""
    done = subprocess.run(
        [python, "-m", "auditwheel", "show", "--json", wheel], capture_output=True, text=True
    )
    if done.returncode != 0:
        return f"{wheel.name}: auditwheel fails: {done.stderr.strip()}"
    tag = json.loads(done.stdout)["overall_tag"]
    print(f"{wheel.name}: auditwheel says {tag}", flush=True)
    (machine,) = (machine for machine in TARGETS if wheel.stem.endswith(f"_{machine}"))
    return None if loads_from(tag, machine) else f"{wheel.name}: is for glibc {GLIBC} by its name"


def merge_jars(made: list[Path], folder: Path) -> Path:
    """One jar with the native libraries of all processors, from those in the wheels."""
    entries: dict[str, bytes] = {}
    for wheel in made:
        with zipfile.ZipFile(wheel) as content:
            (name,) = [name for name in content.namelist() if name.endswith(".jar")]
            with zipfile.ZipFile(content.open(name)) as jar:
                # The manifest comes first, as Java wants it.
                entries |= {
                    entry: jar.read(entry) for entry in jar.namelist() if entry not in entries
                }
    path = folder / Path(name).name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for entry, data in entries.items():
            jar.writestr(zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return path


def make_sdist(folder: Path) -> Path:
    """The source archive, of the files that git knows: a copy of them, since whatever else is in a
    checkout is not part of a release, and takes minutes to go through."""
    sources = BUILD / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for name in names.split("\0")[:-1]:
        copy = sources / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy, follow_symlinks=False)
    python, _ = make_tools()
    run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, sources)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=",".join(TARGETS), help="processors (%(default)s)")
    parser.add_argument("--python", default=",".join(PYTHONS), help="CPythons (%(default)s)")
    options = parser.parse_args()
    # The stubs come from building for this machine.
    machines = sorted(options.machine.split(","), key=lambda machine: machine != os.uname().machine)
    unknown = set(machines) - set(TARGETS)
    if unknown:
        parser.error(f"--machine {','.join(sorted(unknown))}: there are {', '.join(TARGETS)}")
    if machines[0] != os.uname().machine:
        parser.error(f"--machine: {os.uname().machine} is this machine, and needed for the others")
    # What tools write as the time of a file: that of the commit.
    os.environ["SOURCE_DATE_EPOCH"] = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()

    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    made: list[Path] = []
    stubs: dict[str, Path] = {}
    for machine in machines:
        made += make_wheels(TARGETS[machine], options.python.split(","), stubs)
    if status := check_wheel.main(list(map(str, made))):
        return status
    python, _ = make_tools()
    if found := [problem for wheel in made if (problem := audit(wheel, python))]:
        print("\n".join(found))
        return 1
    files = [Path(shutil.copy(wheel, OUT)) for wheel in made]
    files += [merge_jars(made, OUT), make_sdist(OUT)]
    files += bill_of_materials.write(OUT)
    (OUT / "SHA256SUMS").write_text(
        "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    )
    print("\n".join(f"{file.stat().st_size:>10}  dist/{file.name}" for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
