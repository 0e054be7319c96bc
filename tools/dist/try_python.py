#!/usr/bin/env python3
"""Runs the wheel of dist/ that fits on other Pythons of this machine.

    tools/dist/try_python.py PYTHON...

`make test-dist PYTHONS="python3.12 python3.13"` runs it. Each PYTHON gets a virtual environment in
build/dist with the wheel, PySpark and TensorFlow from PyPI; there `tfos doctor` looks at the host,
the tests of feed and codec run, and the quickstart trains two nodes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import make_dist
import try_wheel
from targets import ROOT

REPORT = "import platform, sys; print(platform.python_version(), *sys.version_info[:2])"


def fitting(version: tuple[int, int]) -> Path:
    """The wheel of dist/ for this machine and CPython ``version``."""
    tag = "cp311-cp311" if version == (3, 11) else "cp312-abi3"
    found = list(make_dist.OUT.glob(f"*-{tag}-*{os.uname().machine}.whl"))
    if not found:
        raise FileNotFoundError(
            f"dist/ has no wheel {tag} for {os.uname().machine}: run `make dist`"
        )
    return found[0]


def try_python(python: str) -> None:
    """Raises CalledProcessError if anything fails."""
    said = subprocess.run([python, "-c", REPORT], check=True, capture_output=True, text=True).stdout
    full, major, minor = said.split()
    wheel = fitting((int(major), int(minor)))
    folder = make_dist.BUILD / f"python-{full}"
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(folder / "bin" / "python"),
    }

    def run(*command: str | Path) -> None:
        print("$", *command, flush=True)
        subprocess.run(
            [folder / "bin" / command[0], *command[1:]], check=True, cwd=ROOT, env=environment
        )

    install = ("python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*install, wheel)
    run(*install, try_wheel.SPARK, f"tensorflow-cpu=={try_wheel.TENSORFLOW}", *try_wheel.OF_TESTS)
    run("tfos", "doctor")
    run("python", "-m", "pytest", "-q", *try_wheel.TESTS, *try_wheel.TESTS_OF_TENSORFLOW)
    run("python", "examples/quickstart.py")
    print(f"{wheel.name} runs on CPython {full}", flush=True)


def main(pythons: list[str]) -> int:
    if not pythons:
        sys.exit(__doc__)
    for python in pythons:
        try_python(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
