"""Builds a wheel for one processor and one CPython."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sources import CPYTHON
from sysroot import Sysroot, run
from targets import ROOT, Target


@dataclass(frozen=True)
class Python:
    """A CPython to build for, as Maven Central carries it: headers for ``target``, and an
    interpreter of the same version for this machine."""

    version: str
    target: Target
    downloads: Path

    @property
    def is_abi3(self) -> bool:
        """From 3.12 on one wheel serves all: it uses the stable ABI only."""
        return self.version != "3.11"

    def folder(self, machine: str) -> Path:
        """The folder of its files for the processor ``machine``, as CPython's jars call it."""
        content = CPYTHON[self.version, machine].fetch(self.downloads)
        return content / "org" / "bytedeco" / "cpython" / machine

    @property
    def include(self) -> Path:
        return self.folder(self.target.cpython) / "include" / f"python{self.version}"

    def interpreter(self, folder: Path) -> Path:
        """A command that runs it on this machine."""
        home = self.folder("linux-" + os.uname().machine)
        program = home / "bin" / f"python{self.version}"
        program.chmod(0o755)
        command = folder / f"python{self.version}"
        folder.mkdir(parents=True, exist_ok=True)
        command.write_text(
            f'#!/bin/sh\nLD_LIBRARY_PATH="{home}" PYTHONHOME="{home}" exec "{program}" "$@"\n'
        )
        command.chmod(0o755)
        return command


def build(
    python: Python,
    sysroot: Sysroot,
    libraries: Path,
    folder: Path,
    packages: Path,
    stub: Path | None,
) -> tuple[Path, Path]:
    """Builds a wheel below ``folder``; returns it, and the stub that the build made.

    ``packages`` is a folder with scikit-build-core, nanobind and UCX's headers; ``stub`` is that of
    a build for this machine, which one for another needs.
    """
    target = python.target
    build_folder = folder / "build"
    out = folder / "wheel"
    shutil.rmtree(out, ignore_errors=True)
    suffix = (
        ".abi3.so"
        if python.is_abi3
        else (f".cpython-{python.version.replace('.', '')}-{target.triple}.so")
    )
    definitions = {
        "CMAKE_CXX_COMPILER": sysroot.cxx,
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": target.machine,
        "CMAKE_PREFIX_PATH": f"{libraries};{libraries / 'cmake'}",
        "OPENSSL_ROOT_DIR": libraries,
        "ZLIB_ROOT": libraries,
        "CMAKE_EXE_LINKER_FLAGS": sysroot.compatibility,
        "CMAKE_MODULE_LINKER_FLAGS": sysroot.compatibility,
        "Python_INCLUDE_DIR": python.include,
        "nanobind_DIR": packages / "nanobind" / "cmake",
        "TFOS_WERROR": "ON",
    }
    if stub is not None:
        definitions["TFOS_STUB"] = stub
    environment = os.environ | {
        "PYTHONPATH": str(packages),
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        # With a base, ccache gives the compiler other paths, which get into the binaries.
        "CCACHE_BASEDIR": "",
        "CCACHE_COMPILERCHECK": "content",
        "SETUPTOOLS_EXT_SUFFIX": suffix,
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }
    print(f"Building the wheel for CPython {python.version} on {target.machine}", flush=True)
    run(
        python.interpreter(folder),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        ROOT,
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        out,
        "-C",
        f"build-dir={build_folder}",
        *(
            word
            for name, value in definitions.items()
            for word in ("-C", f"cmake.define.{name}={value}")
        ),
        env=environment,
    )
    (wheel,) = out.glob("*.whl")
    run(
        python.interpreter(folder),
        "-m",
        "wheel",
        "tags",
        "--remove",
        "--platform-tag",
        target.platform_tag,
        wheel,
        env=environment,
    )
    (wheel,) = out.glob("*.whl")
    return wheel, build_folder / "src" / "python" / "_native.pyi"
