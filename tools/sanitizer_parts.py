#!/usr/bin/env python3
"""Divides the checks with Clang and its sanitizers into parts, of which each run of CI takes one.

    tools/sanitizer_parts.py list             each part of CI, its minutes and its command
    tools/sanitizer_parts.py choose COMMIT    the part that CI runs for this commit
    tools/sanitizer_parts.py command PART     the command that runs a part of CI
    tools/sanitizer_parts.py targets [PART]   what `make sanitize-... PART=PART` builds
    tools/sanitizer_parts.py labels [PART]    the tests that it runs, for `ctest --label-regex`

All checks together take too long for one run of CI, so each run takes one part: the commit's hash
chooses it. Over many commits each part gets its turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
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
    "cluster": ("src/cli", "src/collective", "src/control", "src/net", "src/parameter_server"),
}
#: {the part: the folders of the benchmarks that it builds, so that they link}. They use what the
#: part's tests use.
BENCHMARKS = {
    "data": ("bench/inference",),
    "feed": ("bench/feed",),
    "cluster": ("bench/collective", "bench/control"),
}
#: The part that tests the Python extension instead of a folder's C++ tests.
EXTENSION = "extension"
SANITIZERS = ("address", "thread")
#: Minutes of each part of CI on two cores, with nothing in ccache: each must fit beside the tests.
MINUTES = {
    "analyse": 8,
    "fuzz": 9,
    "address/data": 7,
    "address/feed": 10,
    "address/cluster": 14,
    "address/extension": 9,
    "thread/data": 5,
    "thread/feed": 9,
    "thread/cluster": 12,
    "thread/extension": 7,
}
LONGEST = 15


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of what CI checks: its name, and the command that runs it."""

    name: str
    command: str

    @property
    def minutes(self) -> int:
        return MINUTES[self.name]


def parts_of_ci() -> list[Part]:
    """All parts, of which each run of CI takes one."""
    parts = [Part("analyse", "make analyse"), Part("fuzz", "make fuzz")]
    for sanitizer in SANITIZERS:
        parts += [
            Part(f"{sanitizer}/{name}", f"make sanitize-{sanitizer} PART={name}")
            for name in (*FOLDERS, EXTENSION)
        ]
    return parts


def choose(commit: str) -> Part:
    """The part for a commit, by its hash (or the beginning of it, of 8 digits or more)."""
    parts = parts_of_ci()
    return parts[int(commit[:8], 16) % len(parts)]


def hash_of(commit: str) -> str:
    """The hash of what Git knows as `commit`, such as HEAD."""
    command = ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"Git knows no commit {commit!r} here")
    return done.stdout.strip()


def part_of_ci(name: str) -> Part:
    for part in parts_of_ci():
        if part.name == name:
            return part
    known = ", ".join(part.name for part in parts_of_ci())
    raise ValueError(f"there is no part {name!r} of CI; its parts are {known}")


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
    commands.add_parser("list")
    commands.add_parser("choose").add_argument("commit")
    commands.add_parser("command").add_argument("part")
    for name in ("targets", "labels"):
        commands.add_parser(name).add_argument("part", nargs="?", default="")
    arguments = parser.parse_args()
    try:
        if arguments.what == "list":
            for part in parts_of_ci():
                print(f"{part.name:18} {part.minutes:3} min  {part.command}")
        elif arguments.what == "choose":
            print(choose(hash_of(arguments.commit)).name)
        elif arguments.what == "command":
            print(part_of_ci(arguments.part).command)
        elif arguments.what == "targets":
            print(" ".join(targets(arguments.part)))
        else:
            print(labels(arguments.part))
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
