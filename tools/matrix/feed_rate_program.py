"""Feeds one DataFrame into two nodes as often as its standard input says: see feed_rates.py.

It answers "rows: N" at its start. The lines "jar" and "Python" start a cluster that is fed that
way: "started:". The line "feed" feeds all rows: "seconds: S". At the end of its input it ends.
"""

import contextlib
import os
import sys
import tempfile
import time

from pyspark.sql import SparkSession

import tfos

ROWS = 60_000
NODES = 2
PARTITIONS = 4
BATCH = 128
FEED_JVM = {"jar": "on", "Python": "off"}


def read(ctx):
    """Reads each epoch, and says into the driver's pipe when it had read the last row."""
    batches = ctx.batches(BATCH, features="features", label="label")
    while True:
        rows = sum(len(labels) for _, labels in batches)
        if not rows:
            return
        with open(ctx.args, "w") as pipe:
            pipe.write(f"{rows} {time.time()!r}\n")


def session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local-cluster[{NODES},1,1536]")
        .appName("tfos feed rates")
        .config("spark.executor.memory", "1536m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", tfos.jar_path())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main():
    spark = session()
    frame = (
        spark.range(0, ROWS, 1, PARTITIONS)
        .selectExpr(
            "transform(sequence(1, 784), i -> cast(id + i AS float)) AS features",
            "cast(id AS int) AS label",
        )
        .cache()
    )
    print(f"rows: {frame.count()}", flush=True)
    cluster = None
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as clusters:
        name = f"{directory}/read"
        os.mkfifo(name)
        # Open for both, so it has no end while no node writes.
        pipe = open(os.open(name, os.O_RDWR), closefd=True)  # noqa: SIM115
        for line in sys.stdin:
            word = line.strip()
            if word != "feed":
                clusters.close()
                cluster = clusters.enter_context(
                    tfos.run(
                        spark, read, nodes=NODES, args=name, progress=False, feed_jvm=FEED_JVM[word]
                    )
                )
                print("started:", flush=True)
                continue
            began = time.time()
            cluster.train(frame)
            print(f"seconds: {last_read(pipe) - began}", flush=True)
    spark.stop()


def last_read(pipe):
    """When the nodes had read all rows of an epoch."""
    rows = 0
    last = 0.0
    while rows < ROWS:
        count, moment = pipe.readline().split()
        rows += int(count)
        last = max(last, float(moment))
    return last


if __name__ == "__main__":
    main()
