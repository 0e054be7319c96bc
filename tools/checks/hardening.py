"""What the compiler and the linker did to a binary against attacks on memory.

cmake/TfosTargets.cmake asks for it in every build. check_symbols.py looks for it in what tests run,
and tools/dist/check_wheel.py in what a release contains.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


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


def checks_indexes(path: Path) -> bool:
    """Whether the C++ library's assertions (_GLIBCXX_ASSERTIONS) are in ``path``: their message."""
    return b"Assertion '%s' failed" in path.read_bytes()
