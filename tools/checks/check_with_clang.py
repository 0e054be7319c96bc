#!/usr/bin/env python3
"""Checks every C++ source with Clang's warnings as errors, the thread-safety analysis among them.

    tools/checks/check_with_clang.py build/clang [--jobs N]

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
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    entries = [
        entry
        for entry in json.loads((arguments.build / "compile_commands.json").read_text())
        if Path(entry["file"]).is_relative_to(root)
        and not Path(entry["file"]).is_relative_to(arguments.build.resolve())
    ]
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
