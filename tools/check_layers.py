#!/usr/bin/env python3
"""Checks the layers of src/, python/tfos and jvm/: folders and packages use only those below them.

The tables for Python and Java are in layers_python.py and layers_java.py. Also checks that every
C++ test is built.

Prints one line for each violation and fails if there is any.
"""

import pathlib
import re
import sys

import layers_java
import layers_python

# What each folder may include besides itself and include/tfos. `control`, `feed`, `collective`,
# `records` and `tensorflow` stand side by side: none knows another. A test may also use `testing`,
# wherever it lies.
ALLOWED = {
    "base": set(),
    "arrow": {"base"},
    "net": {"base"},
    "testing": {"base"},
    "control": {"base"},
    "feed": {"arrow", "base", "net"},
    "collective": {"base", "net"},
    "parameter_server": {"base", "collective", "net"},
    "records": {"arrow", "base"},
    "tensorflow": {"base"},
    "inference": {"arrow", "base", "feed", "records", "tensorflow"},
    "hadoop": {"base", "tensorflow"},
    "files": {"base", "hadoop", "records"},
    "cli": {"arrow", "base", "control", "feed", "net", "parameter_server", "records"},
    "jvm": {"arrow", "base", "feed", "hadoop", "inference", "records", "tensorflow"},
    "python": {"arrow", "base", "collective", "control", "feed", "files", "hadoop", "inference",
               "parameter_server", "records",
               "tensorflow"},
}
TESTING = "testing"

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_SOURCES = {".cc", ".h"}


def check_includes(root):
    """Yields a message for each include that does not point downwards."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in _SOURCES:
            continue
        folder = path.relative_to(root / "src").parts[0]
        name = path.relative_to(root)
        if folder not in ALLOWED:
            yield f"{name}: src/{folder} has no layer in tools/check_layers.py"
            continue
        allowed = ALLOWED[folder] | {folder}
        if path.stem.endswith("_test"):
            allowed.add(TESTING)
        for included in _INCLUDE.findall(path.read_text()):
            target = included.split("/")[0]
            if target == "tfos" or target in allowed:
                continue
            if target in ALLOWED:
                yield f"{name}: src/{folder} must not include {included}"
            elif not (root / "src" / included).exists():
                yield f'{name}: "{included}" is not below src or include; use <> for a library'


def check_public_headers(root):
    """Yields a message for each public header that includes anything of src/."""
    for path in sorted((root / "include").rglob("*.h")):
        for included in _INCLUDE.findall(path.read_text()):
            if not included.startswith("tfos/"):
                yield f"{path.relative_to(root)}: a public header must not include {included}"


def check_tests_are_built(root):
    """Yields a message for each x_test.cc that its folder's CMakeLists.txt does not name."""
    for path in sorted((root / "src").rglob("*_test.cc")):
        build_file = path.parent / "CMakeLists.txt"
        named = re.search(rf"\b{re.escape(path.stem)}\b", build_file.read_text())
        if not named:
            name = path.relative_to(root)
            yield f"{name}: not in {build_file.relative_to(root)}, so it never runs"


def violations(root):
    yield from check_includes(root)
    yield from check_public_headers(root)
    yield from check_tests_are_built(root)
    yield from layers_python.violations(root)
    yield from layers_java.violations(root)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = list(violations(root))
    for message in found:
        print(message)
    print(f"{len(found)} violations of the layers" if found else "The layers are in order.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
