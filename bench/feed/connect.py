"""Spark Connect against a classic session: how long a cluster takes to start, and how fast a
DataFrame is fed, in one run.

    python bench/feed/connect.py [--repeat 11] [--output docs/performance.md]

Two programs, of which one waits while the other is measured, have two single-core executors each.
Neither has tfos' jar, as a server of Connect need not have it. First each starts clusters of two
nodes, in turns: seconds until both nodes have called the program. Then each has a cluster whose nodes
read the same rows by `ctx.batches(128)`, in turns: seconds until they have read the last one. A call
takes longer over Connect by nearly the same time for any number of rows, so some calls have few rows
and some have many.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import os
import pathlib
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import report

ROWS = 200_000
NODES = 2
PARTITIONS = 4
BATCH = 128
#: How often a call feeds the rows: few, and many.
TIMES = (1, 5)
#: Feeds that are not counted, until JVMs and Python workers are warm.
WARM_UP = 2
#: What is aimed at: seconds more for a start, and the ratio of the rates.
MOST_SECONDS_MORE = 3
RATE_RATIO = 0.9
#: Seconds over Connect, each with those of the classic session in the same turn.
Pairs = list[tuple[float, float]]


def begin(ctx):
    """Says into the driver's pipe that it runs."""
    report_to(ctx.args, 0)


def read(ctx):
    """Says of each epoch, too, when it had read the last row."""
    begin(ctx)
    batches = ctx.batches(BATCH, features="features", label="label")
    while True:
        rows = sum(len(labels) for _, labels in batches)
        if not rows:
            return
        report_to(ctx.args, rows)


def report_to(name: str, rows: int) -> None:
    with open(name, "w") as pipe:
        pipe.write(f"{rows} {time.time()!r}\n")


def session(connect: bool) -> Any:
    from pyspark.sql import SparkSession

    master = f"local-cluster[{NODES},1,2048]"
    builder = (
        SparkSession.builder.remote(master) if connect else SparkSession.builder.master(master)
    )
    return (
        builder.appName("tfos connect bench")
        .config("spark.executor.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


class Client:
    """A program with a session, and at most one cluster.

    Owner: its process. Threads: one.
    """

    def __init__(self, connect: bool, directory: str):
        self._spark = session(connect)
        self._frame = (
            self._spark.range(0, ROWS, 1, PARTITIONS)
            .selectExpr(
                "transform(sequence(1, 784), i -> cast(id + i AS float)) AS features",
                "cast(id AS int) AS label",
            )
            .cache()
        )
        assert self._frame.count() == ROWS
        self._frames = {
            times: functools.reduce(
                lambda frame, _: frame.union(self._frame), range(1, times), self._frame
            )
            for times in TIMES
        }
        self._name = f"{directory}/{'connect' if connect else 'classic'}"
        os.mkfifo(self._name)
        # Open for both, so it has no end while no node writes. Unbuffered: `select` sees each line.
        self._pipe = open(os.open(self._name, os.O_RDWR), "rb", buffering=0)
        self._cluster: Any = None

    def start(self, program: Callable[[Any], None] = begin) -> float:
        """Starts a cluster; the seconds until all nodes have called the program."""
        import tfos

        began = time.time()
        self._cluster = tfos.run(
            self._spark, program, nodes=NODES, args=self._name, progress=False, feed_jvm="off"
        )
        return max(self._next()[1] for _ in range(NODES)) - began

    def stop(self) -> None:
        self._cluster.shutdown()

    def start_reading(self) -> None:
        self.start(read)

    def feed(self, times: int) -> float:
        """Feeds all rows so often; the seconds until nodes have read the last one."""
        began = time.time()
        self._cluster.train(self._frames[times])
        rows = 0
        last = 0.0
        while rows < times * ROWS:
            count, moment = self._next()
            rows += count
            last = max(last, moment)
        return last - began

    def close(self) -> None:
        self._spark.stop()

    def _next(self) -> tuple[int, float]:
        while not select.select([self._pipe], [], [], 1)[0]:
            for node in self._cluster.status():
                if node.state == "failed":
                    raise RuntimeError(node.detail)
        rows, moment = self._pipe.readline().split()
        return int(rows), float(moment)


def serve(orders: Any, connect: bool, directory: str) -> None:
    """The process of a client: calls its methods by name."""
    import cloudpickle

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Executors don't have this module under the name that it has here.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    client = Client(connect, directory)
    for name, arguments in iter(orders.recv, None):
        orders.send(getattr(client, name)(*arguments))
    client.close()


@contextlib.contextmanager
def process_of(connect: bool, directory: str) -> Iterator[Callable[[str], Any]]:
    """A client in a process of its own, as a Python has a classic session or Connect; the function
    calls its methods. EOFError if it has died; its output has the reason."""
    context = multiprocessing.get_context("spawn")
    orders, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, connect, directory))
    process.start()
    theirs.close()

    def call(name: str, *arguments: Any) -> Any:
        orders.send((name, arguments))
        return orders.recv()

    try:
        yield call
        orders.send(None)
    finally:
        orders.close()
        process.join()


def measure(repeat: int) -> tuple[Pairs, dict[int, Pairs]]:
    """Starts, and feeds by how often each feeds the rows."""
    with (
        tempfile.TemporaryDirectory() as directory,
        process_of(True, directory) as connect,
        process_of(False, directory) as classic,
    ):
        starts = []
        for _ in range(repeat + 1):
            starts.append((connect("start"), classic("start")))
            for client in (connect, classic):
                client("stop")
        for client in (connect, classic):
            client("start_reading")
        for _ in range(WARM_UP):
            for client in (connect, classic):
                client("feed", TIMES[0])
        feeds = {
            times: [(connect("feed", times), classic("feed", times)) for _ in range(repeat)]
            for times in TIMES
        }
        for client in (connect, classic):
            client("stop")
    # The first start makes executors and Python workers.
    return starts[1:], feeds


def table(starts: Pairs, feeds: dict[int, Pairs]) -> list[str]:
    more = [theirs - classic for theirs, classic in starts]
    start_medians = [statistics.median(seconds) for seconds in zip(*starts, strict=True)]
    lines = [
        "| | Connect | classic session | compared | to reach |",
        "|---|---|---|---|---|",
        f"| `run()` to the first line of the program | {start_medians[0]:.2f} s | "
        f"{start_medians[1]:.2f} s | **{statistics.median(more):.2f} s more** "
        f"({min(more):.2f} to {max(more):.2f}) | {MOST_SECONDS_MORE} s |",
    ]
    for times, pairs in feeds.items():
        rows = times * ROWS
        ratios = [classic / theirs for theirs, classic in pairs]
        rates = [rows / statistics.median(seconds) for seconds in zip(*pairs, strict=True)]
        lines.append(
            f"| a call with {rows:,} rows | {rates[0]:,.0f} rows/s | {rates[1]:,.0f} rows/s | "
            f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) | "
            f"{RATE_RATIO} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=11)
    options = parser.parse_args()
    lines = table(*measure(options.repeat))
    report.publish(
        "connect.py",
        options.repeat,
        "Rows have an array of 784 float and an int, and Python workers feed them. Medians; in brackets, "
        "minimum and maximum.",
        lines,
        options.output,
    )


if __name__ == "__main__":
    main()
