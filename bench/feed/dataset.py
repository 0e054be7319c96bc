"""Feeding `ctx.dataset`: tfos against bare Spark passes over the same rows, in one run.

    python bench/feed/dataset.py [--repeat 5] [--case echo ...] [--output docs/performance.md]

Two single-core executors and two nodes. Each case feeds cached rows into `ctx.dataset(128)` and is
compared with a Spark pass over the same rows that only counts them: `mapInArrow` for the DataFrame,
`foreachPartition` for RDDs. Each is fed by the executors' JVMs and by Python workers, as without the
jar, in turns with its bare pass; medians are compared.

The DataFrame is also compared with tensorflowonspark 2.2.5 (in an environment of its own, see
compare.py), which is fed the rows of its RDD, as it takes nothing else.

The case `echo` compares with training instead: the same cluster feeds the DataFrame into
`ctx.dataset`, and has it echoed, column by column, by `cluster.inference(df, schema=...)`, whose
rows Spark's `noop` sink takes.
"""

import argparse
import collections
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack

import compare
import feed_workload
import report

BATCH = 128
#: case: (rows, ratio to the bare pass to reach, what a row is)
CASES = {
    "dataframe": (200_000, 0.9, "array of 784 float, int (DataFrame)"),
    "lists": (60_000, 0.85, "(list of 784 floats, label)"),
    "numpy": (100_000, 0.85, "(NumPy array of 784 float64, label)"),
    "bytes": (5_000, 0.85, "bytes of 100 KiB"),
    "ints": (2_000_000, 0.85, "int"),
    "echo": (200_000, 0.6, "array of 784 float, int (DataFrame), echoed"),
}
#: The ratio of the JVM feeder to Python workers.
JVM_RATIO = 2
#: The ratio of tfos to tensorflowonspark 2.2.5.
RIVAL_RATIO = 15
#: The queue of what is echoed.
ECHO_QUEUE = "validation"


def make_data(spark, case, rows):
    if case in ("dataframe", "echo"):
        frame = spark.range(0, rows, 1, feed_workload.PARTITIONS).selectExpr(
            "transform(sequence(1, 784), i -> cast(id + i as float)) as features",
            "cast(id as int) as label",
        )
        data = frame.cache()
        assert data.count() == rows
        return data
    return feed_workload.make_rdd(spark.sparkContext, case, rows)


def consume(ctx):
    """Reads the dataset to the end of each epoch; leaves the count and when it had read the last."""
    import tensorflow as tf

    threading.Thread(target=echo, args=(ctx,), daemon=True).start()
    directory = pathlib.Path(ctx.args)
    dataset = ctx.dataset(BATCH)
    epoch = 0
    while True:
        rows = 0
        for batch in dataset:
            rows += int(tf.nest.flatten(batch)[0].shape[0])
            last = time.time()
        if rows == 0:
            break
        part = directory / f"part-{ctx.node_id}"
        part.write_text(f"{rows} {last!r}")
        part.rename(directory / f"epoch-{epoch}-{ctx.node_id}")
        epoch += 1


def echo(ctx):
    feed = ctx.data_feed(
        train=False, queue=ECHO_QUEUE, input_mapping={"features": "features", "label": "label"}
    )
    while not feed.should_stop():
        feed.batch_results(feed.next_batch(BATCH))


def echo_pass(cluster, data):
    """Seconds until Spark has all rows back."""
    start = time.time()
    echoed = cluster.inference(data, queue=ECHO_QUEUE, schema=data.schema)
    echoed.write.format("noop").mode("overwrite").save()
    return time.time() - start


def bare_pass(data, case):
    start = time.time()
    if case == "dataframe":

        def count(batches):
            import pyarrow as pa

            total = sum(batch.num_rows for batch in batches)
            yield pa.RecordBatch.from_pydict({"rows": [total]})

        assert data.mapInArrow(count, "rows long").toPandas()["rows"].sum() > 0
    else:
        data.foreachPartition(lambda rows: collections.deque(rows, maxlen=0))
    return time.time() - start


def start_cluster(stack, spark, data, rows, feed_jvm):
    """(cluster, the directory of its reports), once it has read an epoch: node and feed are warm, and
    TensorFlow is imported."""
    import tfos

    directory = stack.enter_context(tempfile.TemporaryDirectory())
    cluster = stack.enter_context(
        tfos.run(
            spark,
            consume,
            nodes=2,
            args=directory,
            progress=False,
            feed_jvm=feed_jvm,
        )
    )
    cluster.train(data)
    await_epoch(directory, 0, rows)
    return cluster, directory


def feed_pass(cluster, directory, data, epoch, rows):
    start = time.time()
    cluster.train(data)
    return await_epoch(directory, epoch, rows) - start


def measure_echo(spark, data, rows, repeat):
    """[(seconds of echoing, seconds of training)]"""
    pairs = []
    with ExitStack() as stack:
        cluster, directory = start_cluster(stack, spark, data, rows, "off")
        echoed = cluster.inference(data, queue=ECHO_QUEUE, schema=data.schema)
        assert echoed.selectExpr("sum(label)", "sum(features[783])").first() == (
            data.selectExpr("sum(label)", "sum(features[783])").first()
        )
        for epoch in range(1, repeat + 1):
            echo = echo_pass(cluster, data)
            pairs.append((echo, feed_pass(cluster, directory, data, epoch, rows)))
    return pairs


def measure(spark, data, case, rows, repeat):
    """[(seconds by the JVM feeder, seconds by Python workers, seconds of a bare pass)]. Two clusters,
    of which one waits without work while the other is fed."""
    triples = []
    with ExitStack() as stack:
        feeds = [start_cluster(stack, spark, data, rows, how) for how in ("on", "off")]
        for epoch in range(1, repeat + 1):
            seconds = [feed_pass(*feed, data, epoch, rows) for feed in feeds]
            triples.append((*seconds, bare_pass(data, case)))
    return triples


def rival_row(what, rows, seconds, repeat):
    """A line of the table: tfos against 2.2.5."""
    runs = compare.workload(compare.rival_python(), "dataframe", rows, repeat)["cluster"]
    ours = rows / statistics.median(seconds)
    theirs = compare.median(runs, "rows_per_s")
    return (
        f"| {what}, against 2.2.5 | {ours:,.0f} rows/s | {theirs:,.0f} rows/s | "
        f"**{ours / theirs:.1f}** | {RIVAL_RATIO} |"
    )


def row_of(what, rows, pairs, target):
    """A line of the table of [(seconds of tfos, seconds of the other)]."""
    ours = rows / statistics.median(seconds for seconds, _ in pairs)
    other = rows / statistics.median(seconds for _, seconds in pairs)
    ratios = sorted(b / o for o, b in pairs)
    return (
        f"| {what} | {ours:,.0f} rows/s | {other:,.0f} rows/s | **{ours / other:.2f}** "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {target} |"
    )


def await_epoch(directory, epoch, rows):
    """When the last row of the epoch was read; every row must have been."""
    deadline = time.time() + 300
    while True:
        reports = [
            path.read_text().split() for path in pathlib.Path(directory).glob(f"epoch-{epoch}-*")
        ]
        if sum(int(count) for count, _ in reports) == rows:
            return max(float(last) for _, last in reports)
        if time.time() > deadline:
            sys.exit(f"epoch {epoch} is incomplete: {reports} of {rows} rows")
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", choices=CASES, nargs="*", default=list(CASES))
    options = parser.parse_args()
    report.make_ready(pathlib.Path(__file__).resolve().parent)
    from pyspark.sql import SparkSession

    import tfos

    spark = (
        SparkSession.builder.master("local-cluster[2,1,3072]")
        .appName("dataset-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.executor.memory", "3g")
        .config("spark.jars", tfos.jar_path())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    lines = [
        "| rows of | `ctx.dataset(128)`, or echoed | bare pass, training or rival | ratio | to reach |",
        "|---|---|---|---|---|",
    ]
    for case in options.case:
        rows, target, what = CASES[case]
        data = make_data(spark, case, rows)
        if case == "echo":
            added = [row_of(what, rows, measure_echo(spark, data, rows, options.repeat), target)]
        else:
            triples = measure(spark, data, case, rows, options.repeat)
            added = [
                row_of(what, rows, [(jvm, bare) for jvm, _, bare in triples], target),
                row_of(
                    f"{what}, by Python workers",
                    rows,
                    [(python, bare) for _, python, bare in triples],
                    target,
                ),
            ]
        if case == "dataframe":
            added.append(
                row_of(
                    f"{what}: the JVM against Python workers",
                    rows,
                    [(jvm, python) for jvm, python, _ in triples],
                    JVM_RATIO,
                )
            )
            added.append(rival_row(what, rows, [jvm for jvm, _, _ in triples], options.repeat))
        lines += added
        print("\n".join(added), flush=True)
        data.unpersist()
    spark.stop()
    report.publish(
        "dataset.py",
        options.repeat,
        "Medians; ratios with minimum and maximum.",
        lines,
        options.output,
    )


if __name__ == "__main__":
    main()
