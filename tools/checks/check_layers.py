#!/usr/bin/env python3
"""Checks the layers of src/, python/tfos and jvm/: folders and packages use only those below them.

The tables for Python and Java are in layers_python.py and layers_java.py. Also checks that
folders of src/, the files in them and the modules of Python form no circle. No folder may hold too
many files, no file may be too long, every C++ test must be built, and no source may use what has a
better replacement.

Prints one line for each violation and fails if there is any.
"""

import pathlib
import re
import sys

import circles
import layers_java
import layers_python

# What each folder may include besides itself and include/tfos: name a folder whole ("columns") and
# all below it may be included. A test may also use `testing`, wherever it lies, and what TEST_ONLY
# says.
ALLOWED = {
    "base": set(),
    "arrow": {"base"},
    "net": {"base"},
    "testing": {"base", "net"},
    "chunk": {"base"},
    "columns": {"base", "chunk", "columns/arrow", "columns/pickle"},
    "columns/arrow": {"arrow", "base", "chunk"},
    "columns/pickle": {"base", "chunk"},
    "feed/wire": {"base", "net"},
    "feed/feeder": {"base", "chunk", "columns", "feed/wire", "net"},
    "feed/queue": {"base", "feed/wire"},
    "feed/node": {"base", "chunk", "feed/queue", "feed/wire", "net"},
    "feed/read": {"base", "chunk", "columns", "feed/node", "feed/queue", "feed/wire"},
    "control/messages": {"base", "net"},
    "control/ask": {"base", "control/messages", "net"},
    "control/host": {"base", "control/messages", "net"},
    "control/link": {"base", "control/host", "control/messages", "net"},
    "control/page": {"base"},
    "control/coordinator": {
        "base",
        "control/host",
        "control/link",
        "control/messages",
        "control/page",
        "net",
    },
    "control/agent": {
        "base",
        "control/ask",
        "control/host",
        "control/link",
        "control/messages",
        "net",
    },
    "collective": {"base", "net"},
    "parameter_server": {"base", "collective", "net"},
    "records": {"arrow", "base"},
    "tensorflow": {"base"},
    "inference": {"arrow", "base", "chunk", "columns", "records", "tensorflow"},
    "hadoop": {"base", "tensorflow"},
    "files": {"base", "hadoop", "records"},
    "node": {"base", "control/link", "control/messages", "feed"},
    "datasets": {
        "base",
        "chunk",
        "collective",
        "feed/read",
        "files",
        "node",
        "records",
        "tensorflow",
    },
    "cli": {"base", "control", "net", "parameter_server"},
    "simulation": {
        "base",
        "control/coordinator",
        "control/messages",
        "feed/read",
        "feed/wire",
        "node",
    },
    "jvm": {
        "arrow",
        "base",
        "chunk",
        "columns",
        "control/ask",
        "feed/feeder",
        "feed/wire",
        "hadoop",
        "inference",
        "records",
        "tensorflow",
    },
    "python/objects": {"arrow", "base", "chunk"},
    "python/codec": {
        "arrow",
        "base",
        "chunk",
        "columns",
        "datasets",
        "feed/feeder",
        "python/objects",
    },
    "python/feed": {
        "base",
        "chunk",
        "columns",
        "datasets",
        "feed",
        "node",
        "python/codec",
        "python/objects",
        "tensorflow",
    },
    "python/bind": {
        "arrow",
        "base",
        "chunk",
        "collective",
        "columns",
        "control/ask",
        "control/host",
        "control/messages",
        "datasets",
        "feed",
        "files",
        "hadoop",
        "inference",
        "node",
        "parameter_server",
        "python/codec",
        "python/feed",
        "python/objects",
        "records",
        "tensorflow",
    },
}
# Both ends of a connection are tested against each other.
TEST_ONLY = {
    "collective": {"control/coordinator", "control/messages"},
    "feed/feeder": {"arrow", "feed/node"},
    "feed/node": {"feed/feeder"},
    "feed/read": {"feed/feeder"},
    "cli": {"chunk", "feed", "node"},
    "control/link": {"control/ask"},
    "datasets": {"feed/feeder"},
}
TESTING = "testing"

# What no source may say, and why.
BANNED = {
    r"\basio::detached\b": "it swallows exceptions; use Spawn of control/link/spawn.h",
}
# Nor what is neither a test nor one of these.
THREADS = r"\bstd::(thread\s*(\w+\s*)?[({]|jthread\b|async\b)"
WHY_NO_THREADS = (
    "signals of the program go to such a thread, and exceptions end the process; "
    "use StartThread of base/thread/thread.h"
)
MAY_START_THREADS = {"src/base/thread/thread.cc", "src/base/profile/native_stacks_program.cc"}

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_SOURCES = {".cc", ".h"}
_CODE = _SOURCES | {".java", ".py", ".sh"}
_CODE_FOLDERS = (
    "bench",
    "examples",
    "fuzz",
    "include",
    "jvm/src",
    "python",
    "src",
    "tests",
    "tools",
)
# What a folder may hold, tests included.
MOST_FILES = 20
# What a file may hold; a source should have at most 400 (CONTRIBUTING.md).
MOST_LINES = 500


def folder_of(name):
    """The folder of ALLOWED that the path below src lies in, or None."""
    parents = (str(parent) for parent in pathlib.PurePosixPath(name).parents)
    return next((parent for parent in parents if parent in ALLOWED), None)


def is_of_tests(path):
    return path.stem.endswith(("_test", "_fixture")) or path.stem.startswith("test_")


def check_includes(root):
    """Yields a message for each include that does not point downwards."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in _SOURCES:
            continue
        name = path.relative_to(root)
        folder = folder_of(path.relative_to(root / "src").as_posix())
        if folder is None:
            missing = path.parent.relative_to(root)
            yield f"{name}: {missing} has no layer in tools/checks/check_layers.py"
            continue
        allowed = ALLOWED[folder] | {folder}
        if is_of_tests(path):
            allowed |= {TESTING} | TEST_ONLY.get(folder, set())
        for included in _INCLUDE.findall(path.read_text()):
            target = folder_of(included)
            if included.startswith("tfos/") or target in allowed:
                continue
            if any(target and target.startswith(f"{whole}/") for whole in allowed):
                continue
            if target:
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
    """Yields a message for each x_test.cc that the nearest CMakeLists.txt does not name."""
    for path in sorted((root / "src").rglob("*_test.cc")):
        build_files = (folder / "CMakeLists.txt" for folder in path.parents)
        build_file = next(file for file in build_files if file.exists())
        named = re.search(rf"\b{re.escape(path.stem)}\b", build_file.read_text())
        if not named:
            name = path.relative_to(root)
            yield f"{name}: not in {build_file.relative_to(root)}, so it never runs"


def check_circles(root):
    """Yields a message for each circle of includes: among folders, those within a layer included,
    and among the files of one folder."""
    source = root / "src"
    folders, files = {}, {}
    for path in sorted(source.rglob("*")):
        if path.suffix not in _SOURCES or is_of_tests(path):
            continue
        file = path.relative_to(source)
        included = [pathlib.PurePosixPath(name) for name in _INCLUDE.findall(path.read_text())]
        folders.setdefault(str(file.parent), set()).update(str(name.parent) for name in included)
        files.setdefault(_unit_of(file), set()).update(
            _unit_of(name) for name in included if str(name.parent) == str(file.parent)
        )
    for way in circles.of(folders):
        yield "folders include each other: " + " -> ".join(way)
    for way in circles.of(files):
        yield "files include each other: " + " -> ".join(way)


def _unit_of(path):
    """What x.h, x.cc and x_impl.h, which x.h declares, are together."""
    return str(path.with_suffix("")).removesuffix("_impl")


def check_sizes(root):
    """Yields a message for each folder of code with too many files to take in at a glance."""
    for top in ("src", "python", "jvm/src/main", "tools", "tests/python", "bench", "fuzz"):
        for folder in sorted((root / top).glob("**")):
            files = [path for path in folder.iterdir() if path.suffix in _CODE]
            if len(files) > MOST_FILES:
                name = folder.relative_to(root)
                yield f"{name}: {len(files)} files, {MOST_FILES} at most; make folders in it"


def check_lengths(root):
    """Yields a message for each file of code that is too long."""
    for top in _CODE_FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in _CODE or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            lines = len(path.read_text().splitlines())
            if lines > MOST_LINES:
                yield f"{name}: {lines} lines, {MOST_LINES} at most; split it by its subjects"


def check_banned(root):
    """Yields a message for each use of something banned."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in _SOURCES:
            continue
        banned = dict(BANNED)
        tests = is_of_tests(path) or TESTING in path.relative_to(root).parts
        if not tests and path.relative_to(root).as_posix() not in MAY_START_THREADS:
            banned[THREADS] = WHY_NO_THREADS
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, why in banned.items():
                if re.search(pattern, line):
                    yield f"{path.relative_to(root)}:{number}: {why}"


def violations(root):
    yield from check_includes(root)
    yield from check_public_headers(root)
    yield from check_tests_are_built(root)
    yield from check_circles(root)
    yield from check_sizes(root)
    yield from check_lengths(root)
    yield from check_banned(root)
    yield from layers_python.violations(root)
    yield from layers_java.violations(root)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    found = list(violations(root))
    for message in found:
        print(message)
    print(f"{len(found)} violations of the layers" if found else "The layers are in order.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
