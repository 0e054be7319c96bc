"""Feeds for as long as asked, and fails if a process of the cluster keeps growing.

    python bench/feed/soak.py [--minutes 1440]

Two nodes read a DataFrame through `ctx.dataset` and an RDD of Python objects through `next_batch`,
epoch after epoch, with partitions of very different sizes. The memory of coordinator, agents and
nodes (resident, without what feeders share with them) is sampled after each epoch. The first third
is warm-up; what each process takes at its end is compared with the last third's smallest sample,
which may be a tenth and 96 MiB more.
"""

import argparse
import os
import pathlib
import sys
import threading
import time

import psutil

ROWS = 40_000
BATCH = 128
#: Growth that is none: allocators and TensorFlow's arenas settle late. On a busy machine 60 MB came
#: after the third epoch, and nothing in 20 more. Rows that stay would be 30 MB an epoch.
_SHARE, _BYTES = 1.1, 96 << 20
_FEWEST_EPOCHS = 9


def read(ctx):
    """Both feeds, to their ends."""

    def rows():
        feed = ctx.data_feed(queue="validation")
        while not feed.should_stop():
            feed.next_batch(BATCH)

    reader = threading.Thread(target=rows)
    reader.start()
    dataset = ctx.dataset(BATCH)
    while sum(1 for _ in dataset):
        pass
    reader.join()


def private_memory(pid):
    """Bytes of resident memory that are not shared, of a process."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value
    return int(fields["RssAnon"].split()[0]) * 1024


def uneven(spark):
    """A DataFrame with partitions from a few rows to most of them."""
    frame = spark.range(0, ROWS, 1, 6).selectExpr(
        "transform(sequence(1, 100), i -> cast(id + i as float)) as features",
        "cast(id as int) as label",
    )
    return frame.repartitionByRange(6, (frame.label * frame.label).alias("square")).cache()


def check(samples):
    """[complaint] about processes that keep growing, by their samples in order."""
    complaints = []
    for name, sizes in samples.items():
        third = len(sizes) // 3
        before, after = sizes[third], min(sizes[-third:])
        print(f"{name}: {before / 1e6:,.1f} MB after warming up, {after / 1e6:,.1f} MB at the end")
        if after > before * _SHARE + _BYTES:
            complaints.append(f"{name} grew from {before:,} to {after:,} bytes")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=24 * 60)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import tfos

    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("feed-soak")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", tfos.jar_path())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = uneven(spark)
    objects = spark.sparkContext.parallelize(range(ROWS), 7).map(
        lambda n: {"id": n, "text": str(n) * (n % 9), "list": [float(n)] * (n % 50)}
    )
    samples = {}
    end = time.monotonic() + 60 * options.minutes
    epochs = 0
    with tfos.run(spark, read, nodes=2) as cluster:
        coordinator = next(
            child.pid for child in psutil.Process().children() if "coordinator" in child.cmdline()
        )
        while time.monotonic() < end or epochs < _FEWEST_EPOCHS:
            cluster.train(frame)
            cluster.train(objects, queue="validation")
            epochs += 1
            pids = {f"agent {n.node_id}": n.agent_pid for n in cluster.status()}
            pids |= {f"node {n.node_id}": n.pid for n in cluster.status()}
            pids["coordinator"] = coordinator
            for name, pid in pids.items():
                samples.setdefault(name, []).append(private_memory(pid))
    complaint = cluster.ledger().complaint()
    spark.stop()
    print(f"{epochs} epochs of 2 x {ROWS:,} rows")
    complaints = check(samples) + ([complaint] if complaint else [])
    sys.exit("; ".join(complaints) or 0)


if __name__ == "__main__":
    main()
