"""What the compiler and the linker did to a binary against attacks on memory.

cmake/TfosTargets.cmake asks for it in every build. check_symbols.py looks for it in what tests run,
and tools/dist/check_wheel.py in what a release contains.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

#: They index nothing, so there is nothing to check.
WITHOUT_INDEXES = {"_hadoop_files.so"}
#: They format no text with the C library.
WITHOUT_BUFFERS = {"_hadoop_files.so", "_tensorflow_ops.so"}


def readelf(option: str, path: Path) -> str:
    """What ``readelf`` says of it, in the untranslated form."""
    command = ["readelf", "--wide", option, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def soft_spots(path: Path) -> list[str]:
    """What ``path`` lacks."""
    headers = readelf("--program-headers", path)
    dynamic = readelf("--dynamic", path)
    symbols = readelf("--dyn-syms", path)
    stack = re.search(r"GNU_STACK.*\s([RWE]+)\s+0x", headers)
    found = {
        "a stack that is not executable": stack is not None and "E" not in stack.group(1),
        "relocations that are read-only (RELRO)": "GNU_RELRO" in headers,
        "symbols that are bound at once (BIND_NOW)": bool(re.search(r"BIND_NOW|\bNOW\b", dynamic)),
        "canaries on the stack": "__stack_chk_fail" in symbols,
        "addresses that move (PIE)": "DYN" in readelf("--file-header", path),
    }
    return [what for what, there in found.items() if not there]


def unchecked(path: Path) -> list[str]:
    """What ``path``, one of the binaries of tfos, does not check while it runs."""
    found = {}
    if path.name not in WITHOUT_INDEXES:  # The message of the C++ library's assertions.
        found["indexes (_GLIBCXX_ASSERTIONS)"] = b"Assertion '%s' failed" in path.read_bytes()
    if path.name not in WITHOUT_BUFFERS:
        # Not any such call: OpenSSL is linked in, and Debian's makes some, however tfos is built.
        call = re.search(r"\b__v?snprintf_chk\b", readelf("--dyn-syms", path))
        found["the C library's buffers (_FORTIFY_SOURCE)"] = call is not None
    return [f"checks of {what}" for what, there in found.items() if not there]
