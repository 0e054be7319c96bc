#!/usr/bin/env python3
"""Divides the tests that the sanitizers run into parts; ci_parts.py says when CI runs them.

tools/checks/sanitizer_parts.py targets [PART]   what `make sanitize-... PART=PART` builds
tools/checks/sanitizer_parts.py labels [PART]    its tests, for `ctest --label-regex`
"""

from __future__ import annotations

import argparse
import sys

#: {part of a sanitizer's tests: the folders that it builds and whose tests it runs}. Both
#: sanitizers have these parts. A folder stands for the folders below it, too.
FOLDERS = {
    "data": (
        "src/arrow",
        "src/base",
        "src/chunk",
        "src/columns",
        "src/files",
        "src/hadoop",
        "src/inference",
        "src/jvm",
        "src/records",
        "src/tensorflow",
    ),
    "feed": ("src/datasets", "src/feed", "src/node", "src/simulation"),
    "cluster": ("src/cli", "src/collective", "src/net", "src/parameter_server"),
    "control": ("src/control",),
}
#: {the part: the folders of the benchmarks that it builds, so that they link}. They use what the
#: part's tests use.
BENCHMARKS = {
    "data": ("bench/inference",),
    "feed": ("bench/feed",),
    "cluster": ("bench/collective",),
    "control": ("bench/control",),
}
#: The part that tests the Python extension instead of a folder's C++ tests.
EXTENSION = "extension"
SANITIZERS = ("address", "thread")


def folders_of(part: str) -> tuple[str, ...]:
    """The folders whose tests a sanitizer's part runs; none for the extension."""
    if part == EXTENSION:
        return ()
    if part not in FOLDERS:
        known = ", ".join((*FOLDERS, EXTENSION))
        raise ValueError(f"there is no part {part!r} of the sanitizers; their parts are {known}")
    return FOLDERS[part]


def targets(part: str) -> list[str]:
    """What to build for a sanitizer's part. Without a name: all there is, benchmarks included."""
    if not part:
        return ["all"]
    folders = folders_of(part) or ("src/python",)
    return [f"{folder}/all" for folder in folders + BENCHMARKS.get(part, ())]


def labels(part: str) -> str:
    """A regular expression for the labels of a part's tests: "" for none, "." for all."""
    if not part:
        return "."
    folders = folders_of(part)
    return f"^({'|'.join(folders)})(/|$)" if folders else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("targets", "labels"):
        commands.add_parser(name).add_argument("part", nargs="?", default="")
    arguments = parser.parse_args()
    try:
        if arguments.what == "targets":
            print(" ".join(targets(arguments.part)))
        else:
            print(labels(arguments.part))
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
