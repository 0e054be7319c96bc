#!/usr/bin/env python3
"""Divides what takes too long for one run of CI: each run takes one part, beside what all take
(.ci/run). The commit's hash chooses it. Over many commits each gets its turn.

    tools/checks/ci_parts.py list             each part, its minutes and its command
    tools/checks/ci_parts.py choose COMMIT    the part that CI runs for this commit
    tools/checks/ci_parts.py command PART     the command that runs a part
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys

from sanitizer_parts import EXTENSION, FOLDERS, SANITIZERS

#: Minutes of each part on two cores, with nothing in ccache: each must fit beside the rest, which
#: takes 60.
MINUTES = {
    "chaos": 8,
    "address/data": 7,
    "address/feed": 10,
    "address/cluster": 9,
    "address/control": 10,
    "address/extension": 9,
    "thread/data": 5,
    "thread/feed": 9,
    "thread/cluster": 8,
    "thread/control": 9,
    "thread/extension": 7,
    "spark-3.5.7": 6,
    "spark-4.0.1": 10,
    "spark-4.2.1": 10,
    "spark-4.3.0": 10,
    "long/cluster": 9,
    "long/keras": 9,
    "long/walkthroughs": 9,
    "long/others": 9,
}
LONGEST = 10

TESTS = "tests/python"
#: {part of the long tests: its folders}. One more, long/others, has those of all other folders.
LONG_TESTS = {
    "cluster": ("cluster",),
    "keras": ("keras", "mlflow"),
    "walkthroughs": ("walkthroughs", "repository"),
}


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of what CI checks: its name, and the command that runs it."""

    name: str
    command: str

    @property
    def minutes(self) -> int:
        return MINUTES[self.name]


def checks() -> list[Part]:
    """The parts with failures, sanitizers and other versions of Spark."""
    parts = [Part("chaos", "make chaos")]
    for sanitizer in SANITIZERS:
        parts += [
            Part(f"{sanitizer}/{name}", f"make sanitize-{sanitizer} PART={name}")
            for name in (*FOLDERS, EXTENSION)
        ]
    # A few cases with one of the other versions of Spark. All of them would download too much.
    parts += [
        Part(name, f"make test-matrix SHORT=1 VERSIONS={name}")
        for name in MINUTES
        if name.startswith("spark-")
    ]
    return parts


def long_tests() -> list[Part]:
    """The parts of the long tests."""
    folders = {
        name: [f"{TESTS}/{folder}" for folder in folders] for name, folders in LONG_TESTS.items()
    }
    others = [f"--ignore={folder}" for each in folders.values() for folder in each]
    folders["others"] = [TESTS, *others]
    return [
        Part(f"long/{name}", f"make test-long LONG_TESTS='{' '.join(each)}'")
        for name, each in folders.items()
    ]


def parts_of_ci() -> list[Part]:
    """All parts, of which each run of CI takes one."""
    return checks() + long_tests()


def choose(commit: str) -> Part:
    """The part for a commit, by its hash (or the beginning of it, of 8 digits or more)."""
    number = int(commit[:8], 16)
    # Every other commit takes long tests: each change may break these, few break a check.
    parts = long_tests() if number % 2 else checks()
    return parts[number // 2 % len(parts)]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("list")
    commands.add_parser("choose").add_argument("commit")
    commands.add_parser("command").add_argument("part")
    arguments = parser.parse_args()
    try:
        if arguments.what == "list":
            for part in parts_of_ci():
                print(f"{part.name:18} {part.minutes:3} min  {part.command}")
        elif arguments.what == "choose":
            print(choose(hash_of(arguments.commit)).name)
        else:
            print(part_of_ci(arguments.part).command)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
