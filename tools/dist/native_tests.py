"""The C++ tests of a release: built for its old C library by the build of a wheel, of the objects
that the wheel consists of."""

from __future__ import annotations

import os
from pathlib import Path

import libraries
import make_dist
from sysroot import Sysroot, run
from targets import Target

#: Folders of src that need no TensorFlow, Java, package of Python, or installed tfos.
FOLDERS = ("base", "chunk", "collective", "columns", "control", "feed", "records")


def build(target: Target, python: str) -> list[Path]:
    """Builds the tests of FOLDERS in the folder where `make_dist` has made the wheel for CPython
    ``python``; returns the programs."""
    home = make_dist.BUILD / target.machine
    folder = home / f"python{python}" / "build"
    libraries.build_googletest(Sysroot(target, home / "sysroot"), home / "libraries")
    print(f"Building the C++ tests for {target.machine} (minutes)", flush=True)
    # A program of another processor can't be asked for its tests here.
    run(
        "cmake",
        folder,
        "-DTFOS_BUILD_TESTS=ON",
        "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST",
    )
    try:
        run(
            "cmake",
            "--build",
            folder,
            "--parallel",
            os.environ.get("JOBS", str(os.cpu_count())),
            "--target",
            *(f"src/{name}/all" for name in FOLDERS),
        )
    finally:
        run("cmake", folder, "-DTFOS_BUILD_TESTS=OFF")
    return sorted(
        path
        for name in FOLDERS
        for path in (folder / "src" / name).rglob("*_test")
        if path.is_file() and os.access(path, os.X_OK)
    )
