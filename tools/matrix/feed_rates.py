"""Compares how fast two versions of Spark feed a DataFrame, in turns and with the same rows.

feed_rate_program.py runs in both environments at the same time. One of them feeds while the other
one waits, so whatever else this machine does slows both alike.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parent / "feed_rate_program.py"
#: How rows reach a node, as feed_rate_program.py names it.
WAYS = ("jar", "Python")
WARM_UP = 2
ROUNDS = 11


class Feeder:
    """A process that feeds its rows when it is told to.

    Owner: the caller, in a `with` block. Threads: one. Errors: RuntimeError if the
    process ends; its output has the reason.
    """

    def __init__(self, python: Path, variables: dict[str, str]):
        self._process = subprocess.Popen(
            [python, PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.rows = int(self._answer("rows"))

    def start(self, way: str) -> None:
        """Starts a cluster that is fed this way, in place of the one before."""
        self._tell(way)
        self._answer("started")

    def feed(self) -> float:
        """Feeds all rows once, and returns the seconds until nodes have read them."""
        self._tell("feed")
        return float(self._answer("seconds"))

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends its cluster and its Spark."""
        with contextlib.suppress(BrokenPipeError):  # It has ended before it took a line.
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, word: str) -> None:
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _answer(self, word: str) -> str:
        # Spark prints between them.
        for line in self._process.stdout:
            if line.startswith(f"{word}:"):
                return line.partition(":")[2].strip()
        raise RuntimeError(f"{PROGRAM.name} ended with {self._process.wait()}")


def compare(title: str, python: Path, default: Path, variables: dict[str, str]) -> dict[str, Any]:
    """The rates of the first Python's Spark, and their ratios to those of the second, by way."""
    ways = {}
    with Feeder(python, variables) as tried, Feeder(default, variables) as other:
        for way in WAYS:
            for feeder in (tried, other):
                feeder.start(way)
            turns = [(tried.feed(), other.feed()) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
            ratios = [seconds_of_other / seconds for seconds, seconds_of_other in turns]
            low, middle, high = statistics.quantiles(ratios, n=4)
            ways[way] = {
                "rows_per_s": tried.rows / statistics.median(seconds for seconds, _ in turns),
                "ratio": middle,
                "quartiles": [low, high],
            }
            print(f"{title}, by {way}: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    return {"ways": ways}
