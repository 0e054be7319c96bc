#!/usr/bin/env python3
"""Checks C++ sources with Clang's warnings as errors, the thread-safety analysis among them.

    tools/checks/check_with_clang.py build/clang [--jobs N] [--newest N]

Checks every source or, with --newest, so many of those that were changed last: what is not
committed, and then commit after commit. A header stands for the source and the test of its name.
Only parses: that takes minutes where a build takes a quarter of an hour. The directory is one that
``cmake --preset clang`` has configured; nothing in it needs to be built.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def command_of(entry: dict[str, str]) -> list[str]:
    """The compiler's command without its output: it parses, and writes nothing."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    del words[at : at + 2]
    words.remove("-c")
    if Path(words[0]).name == "ccache":
        del words[0]
    return [*words, "-fsyntax-only"]


def changed(root: Path) -> Iterator[str]:
    """The C++ files that were changed last, the newest first; a file may come several times.

    In a clone without history the only commit there is has all files, in their order."""
    for command in (
        "git ls-files --modified --others --exclude-standard",
        "git diff --cached --name-only --relative",
        "git log --name-only --relative --format=",
    ):
        words = [*command.split(), "--", "*.cc", "*.h"]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
        yield from filter(None, done.stdout.splitlines())


def newest(
    entries: list[dict[str, str]], names: Iterable[Path], number: int
) -> list[dict[str, str]]:
    """At most so many of the entries, those of the first names."""
    by_name = {Path(entry["file"]): entry for entry in entries}
    chosen: dict[Path, dict[str, str]] = {}
    for name in names:
        tests = (name.with_name(f"{name.stem}_test.cc"),) if name.suffix == ".h" else ()
        for source in (name.with_suffix(".cc"), *tests):
            if len(chosen) < number and source in by_name:
                chosen[source] = by_name[source]
    return list(chosen.values())


def check(entry: dict[str, str]) -> tuple[str, str]:
    """The source, and what Clang says against it."""
    done = subprocess.run(
        command_of(entry), cwd=entry["directory"], capture_output=True, text=True, check=False
    )
    said = done.stderr or f"clang ended with status {done.returncode}"
    return entry["file"], said if done.returncode != 0 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--newest", type=int)
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    entries = [
        entry
        for entry in json.loads((arguments.build / "compile_commands.json").read_text())
        if Path(entry["file"]).is_relative_to(root)
        and not Path(entry["file"]).is_relative_to(arguments.build.resolve())
    ]
    if arguments.newest is not None:
        entries = newest(entries, (root / name for name in changed(root)), arguments.newest)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for done, (name, said) in enumerate(pool.map(check, entries), 1):
            if said:
                failed += 1
                print(said, file=sys.stderr)
            if done % 50 == 0:
                print(f"{done} of {len(entries)}: {Path(name).relative_to(root)}", flush=True)
    print(f"{failed} of {len(entries)} sources have warnings")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
