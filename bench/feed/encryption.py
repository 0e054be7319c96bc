"""What encryption between hosts costs: the rate of feeding a DataFrame, and the start of a cluster.

    python bench/feed/encryption.py [--repeat 9] [--starts 15] [--rows 200000] [--output docs/performance.md]

Two network namespaces, joined by a cable, stand for two hosts, each with an executor of one core.
Nothing but TCP joins them. It needs root.

First clusters of a node on each host start, in turns with spark.tfos.encrypt=false and true: seconds
until both nodes have called the program. Then two clusters are fed in turns. Their nodes are on the
first host, and all tasks that feed them on the second: a job that waits holds the other slot.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tools"), str(ROOT / "tests" / "python")]

import dataset  # noqa: E402
import report  # noqa: E402

from spark_cluster import Host, SparkCluster  # noqa: E402
from support.namespaces import joined_host  # noqa: E402

report.make_ready(HERE)

_OURS = "10.213.91.1"
_THEIRS = "10.213.91.2"
#: Without encryption, and with it.
_ENCRYPT = ("false", "true")
#: What is aimed at: the ratio of the rates, and seconds more for a start.
_RATE_RATIO = 0.9
_MOST_SECONDS_MORE = 0.1
_WARM_UP = 2
#: Seconds without encryption and with it, in one turn.
Pairs = list[tuple[float, ...]]


def begin(ctx):
    """Leaves when the program was called."""
    pathlib.Path(ctx.args, str(ctx.node_id)).write_text(repr(time.time()))


def session(url: str) -> Any:
    from pyspark.sql import SparkSession

    import tfos

    spark = (
        SparkSession.builder.master(url)
        .appName("encryption-bench")
        .config("spark.driver.host", _OURS)
        .config("spark.driver.bindAddress", _OURS)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.executor.memory", "3g")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.jars", tfos.jar_path())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start(spark: Any, encrypt: str) -> float:
    """Seconds until the nodes of both hosts have called the program."""
    import tfos

    with tempfile.TemporaryDirectory() as directory:
        began = time.time()
        with tfos.run(
            spark,
            begin,
            nodes=2,
            args=directory,
            input_mode="tensorflow",
            encrypt=encrypt,
            progress=False,
        ):
            pass
        called = [float(path.read_text()) for path in pathlib.Path(directory).iterdir()]
    assert len(called) == 2, called
    return max(called) - began


@contextlib.contextmanager
def slot_held(sc: Any, address: str, directory: str) -> Iterator[None]:
    """Holds the slot of the executor at `address` until the block ends."""
    release = pathlib.Path(directory, f"release-{address}-{time.time()}")
    held = release.with_name(f"held-{release.name}")
    os.mkfifo(release)
    os.mkfifo(held)

    def hold(_rows):
        from pyspark import BarrierTaskContext

        # Both tasks run at once, so each has one of the slots.
        BarrierTaskContext.get().barrier()
        if os.environ["SPARK_LOCAL_IP"] == address:
            held.write_text("held")
            release.read_text()
        return []

    holding = threading.Thread(
        target=lambda: sc.parallelize(range(2), 2).barrier().mapPartitions(hold).collect()
    )
    holding.start()
    held.read_text()
    try:
        yield
    finally:
        release.write_text("")
        holding.join()


def measure_feed(spark: Any, rows: int, repeat: int, feed_jvm: str) -> Pairs:
    import tfos

    sc = spark.sparkContext
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        feeds: list[Callable[[int], float]] = []
        with slot_held(sc, _THEIRS, directory):
            for encrypt in _ENCRYPT:
                place = stack.enter_context(tempfile.TemporaryDirectory())
                cluster = stack.enter_context(
                    tfos.run(
                        spark,
                        dataset.consume,
                        nodes=1,
                        args=place,
                        encrypt=encrypt,
                        progress=False,
                        feed_jvm=feed_jvm,
                    )
                )
                (node,) = cluster.status()
                assert node.address == _OURS, node
                feeds.append(
                    lambda epoch, cluster=cluster, place=place: dataset.feed_pass(
                        cluster, place, data, epoch, rows
                    )
                )
        with slot_held(sc, _OURS, directory):
            data = dataset.make_data(spark, "dataframe", rows)
            turns = [
                in_turns(epoch, [functools.partial(feed, epoch) for feed in feeds])
                for epoch in range(_WARM_UP + repeat)
            ]
            data.unpersist()
    return turns[_WARM_UP:]


def in_turns(turn: int, calls: list[Callable[[], float]]) -> tuple[float, ...]:
    """What the calls return; every other turn begins with the last one."""
    back = -1 if turn % 2 else 1
    return tuple([call() for call in calls[::back]][::back])


def feed_line(what: str, rows: int, pairs: Pairs) -> str:
    plain, encrypted = (rows / statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    ratios = [open_seconds / tls_seconds for open_seconds, tls_seconds in pairs]
    return (
        f"| a DataFrame, fed by {what} | {plain:,.0f} rows/s | {encrypted:,.0f} rows/s | "
        f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) | "
        f"{_RATE_RATIO} |"
    )


def start_line(pairs: Pairs) -> str:
    plain, encrypted = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    more = [tls_seconds - open_seconds for open_seconds, tls_seconds in pairs]
    return (
        f"| `run()` to the first line of the program | {plain:.2f} s | {encrypted:.2f} s | "
        f"**{statistics.median(more):.2f} s more** ({min(more):.2f} to {max(more):.2f}) | "
        f"{_MOST_SECONDS_MORE} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    os.environ["SPARK_LOCAL_IP"] = _OURS
    with (
        tempfile.TemporaryDirectory() as directory,
        joined_host(_OURS, _THEIRS) as other_host,
        SparkCluster(
            workers=2,
            cores=1,
            memory="3g",
            directory=pathlib.Path(directory),
            hosts=(Host(_OURS), other_host),
        ) as cluster,
        session(cluster.url) as spark,
    ):
        # The first ones make executors and Python workers.
        starts = [
            in_turns(turn, [functools.partial(start, spark, encrypt) for encrypt in _ENCRYPT])
            for turn in range(options.starts + 1)
        ]
        lines = [
            "| | not encrypted | encrypted | compared | to reach |",
            "|---|---|---|---|---|",
            start_line(starts[1:]),
        ]
        for what, feed_jvm in (("executors' JVMs", "on"), ("Python workers", "off")):
            pairs = measure_feed(spark, options.rows, options.repeat, feed_jvm)
            lines.append(feed_line(what, options.rows, pairs))
            print(lines[-1], flush=True)
    report.publish(
        "encryption.py",
        options.repeat,
        f"{options.starts} starts; {options.rows:,} rows with an array of 784 float and an int. "
        "Medians; in brackets, minimum and maximum.",
        lines,
        options.output,
    )


if __name__ == "__main__":
    main()
