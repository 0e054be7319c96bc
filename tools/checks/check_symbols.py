#!/usr/bin/env python3
"""Checks what a built extension shows to, and needs of, the process that loads it.

    tools/checks/check_symbols.py path/to/_native*.so [path/to/_tensorflow_ops.so] [path/to/tfos]

A shared object (``*.so``) may define no dynamic symbol but its module's ``PyInit_``, the C
functions ``tfos_*``, the ``TF_InitPlugin`` that TensorFlow looks for in a plugin and the
``Java_tfos_*`` that Java looks for: it shares a process with TensorFlow. Neither it nor an
executable may need other shared libraries than the C library and libgcc_s, which that loads itself:
an executor has them, and need not have our C++ runtime or OpenSSL. Nor may either contain a copy of
libgcc's unwinder: pthread_exit unwinds with libgcc_s, whose state another copy can't read. Nor may
they need what only the newest glibc has: docs/status.md says which one executors need.

Each must also be hardened against attacks on memory (hardening.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hardening import soft_spots, unchecked

ALLOWED_LIBRARIES = re.compile(
    r"(libc|libgcc_s|libm|libpthread|libdl|librt|ld-linux-[\w-]+)\.so\.[\d.]+"
)


#: What the C++ runtime would take of glibc 2.36 and 2.35: executors have 2.34 and newer.
TOO_NEW = re.compile(r"\b(arc4random|_dl_find_object)\b")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def leaked_symbols(path: Path) -> list[str]:
    """The dynamic symbols that ``path`` defines besides its module's entry and its C functions."""
    names = [
        line.split()[-1].split("@")[0]
        for line in output_of("nm", "-D", "--defined-only", str(path)).splitlines()
    ]
    return [
        name
        for name in names
        if not re.fullmatch(r"(PyInit|tfos|Java_tfos)_\w+|TF_InitPlugin", name)
    ]


def foreign_libraries(path: Path) -> list[str]:
    """The shared libraries that ``path`` needs and an executor may not have."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", str(path)))
    return [name for name in needed if not ALLOWED_LIBRARIES.fullmatch(name)]


def too_new_symbols(path: Path) -> list[str]:
    """What ``path`` needs of a glibc that an executor may not have. _dl_find_object also betrays a
    copy of libgcc's unwinder."""
    undefined = output_of("nm", "-D", "--undefined-only", str(path))
    return sorted(set(TOO_NEW.findall(undefined)))


def main(paths: list[str]) -> int:
    if not paths:
        sys.exit(__doc__)
    failures = []
    for path in map(Path, paths):
        if path.suffix == ".so":
            failures += [f"{path}: shows the symbol {name}" for name in leaked_symbols(path)]
        failures += [f"{path}: needs {name}" for name in foreign_libraries(path)]
        failures += [f"{path}: needs glibc's {name}" for name in too_new_symbols(path)]
        failures += [f"{path}: lacks {what}" for what in soft_spots(path) + unchecked(path)]
    print("\n".join(failures) or f"{len(paths)} files are clean")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
