"""One measurement of feeding a cluster from Spark, written against `tensorflowonspark` only.

The same file runs with tfos and with tensorflowonspark 2.2.5, each in its own environment, and
prints one JSON line. `compare.py` runs both and prints the ratios.

    python feed_workload.py --case lists --rows 60000 [--repeat 3]
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import tempfile
import time

CASES = ("lists", "numpy", "bytes", "ints", "inference", "dataframe")
BATCH = 100
PARTITIONS = 4


def make_rows(case, index, count):
    """The rows of partition `index`."""
    import numpy as np

    start = index * count
    if case in ("lists", "inference"):
        values = np.random.default_rng(index).random(784)
        return (((values + n).tolist(), n) for n in range(start, start + count))
    if case == "numpy":
        values = np.random.default_rng(index).random(784)
        return ((values + n, n) for n in range(start, start + count))
    if case == "bytes":
        block = os.urandom(100 * 1024 - 8)
        return (block + n.to_bytes(8, "little") for n in range(start, start + count))
    return iter(range(start, start + count))


def make_rdd(sc, case, rows):
    """Cached, and passed over once."""
    if case == "dataframe":
        from pyspark.sql import SparkSession

        frame = (
            SparkSession(sc)
            .range(0, rows, 1, PARTITIONS)
            .selectExpr(
                "transform(sequence(1, 784), i -> cast(id + i as float)) as features",
                "cast(id as int) as label",
            )
            .cache()
        )
        assert frame.count() == rows
        return frame.rdd
    each = rows // PARTITIONS
    rdd = (
        sc.parallelize(range(PARTITIONS), PARTITIONS)
        .flatMap(lambda index: make_rows(case, index, each))
        .cache()
    )
    assert rdd.count() == each * PARTITIONS
    return rdd


def consume(args, ctx):
    """map_fun: reads the feed to its end and leaves when it did so, and what it saw, in a file."""
    pathlib.Path(args["dir"], f"first-{ctx.executor_id}").write_text(repr(time.time()))
    feed = ctx.get_data_feed(train_mode=args["train"])
    rows = 0
    last = time.time()
    while not feed.should_stop():
        batch = feed.next_batch(BATCH)
        if batch:
            rows += len(batch)
            last = time.time()
            if not args["train"]:
                feed.batch_results(batch)
    path = pathlib.Path(args["dir"], f"rows-{ctx.executor_id}")
    path.with_suffix(".tmp").write_text(json.dumps({"rows": rows, "last": last}))
    path.with_suffix(".tmp").rename(path)


def busy_seconds():
    """CPU seconds spent by all processes of this machine since it started."""
    fields = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def measure(sc, rdd, case, rows):
    from tensorflowonspark import TFCluster

    train = case != "inference"
    with tempfile.TemporaryDirectory() as directory:
        args = {"dir": directory, "train": train}
        called = time.time()
        cluster = TFCluster.run(
            sc, consume, args, num_executors=2, num_ps=0, input_mode=TFCluster.InputMode.SPARK
        )
        while len(firsts := list(pathlib.Path(directory).glob("first-*"))) < 2:
            time.sleep(0.01)
        startup = max(float(f.read_text() or called) for f in firsts) - called
        cpu = busy_seconds()
        start = time.time()
        if train:
            cluster.train(rdd, 1)
        else:
            counted = cluster.inference(rdd).count()
            assert counted == rows, f"{counted} results for {rows} rows"
            end = time.time()
        returned = time.time()
        cluster.shutdown()
        shutdown = time.time() - returned
        reports = [json.loads(f.read_text()) for f in pathlib.Path(directory).glob("rows-*")]
        consumed = sum(report["rows"] for report in reports)
        assert consumed == rows, f"{consumed} rows consumed of {rows}"
        if train:
            end = max(report["last"] for report in reports if report["rows"])
        cpu = busy_seconds() - cpu
    return {
        "rows_per_s": rows / (end - start),
        "cpu_us_per_row": 1e6 * cpu / rows,
        "startup_s": startup,
        "shutdown_s": shutdown,
    }


def bare_pass(rdd, rows):
    """The same rows through Spark's Python workers, doing nothing: what Spark itself can give."""
    start = time.time()
    cpu = busy_seconds()
    rdd.foreachPartition(lambda rows: collections.deque(rows, maxlen=0))
    return {
        "rows_per_s": rows / (time.time() - start),
        "cpu_us_per_row": 1e6 * (busy_seconds() - cpu) / rows,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local-cluster[2,1,3072]").setAppName("feed-workload")
    conf.set("spark.ui.enabled", "false").set("spark.task.maxFailures", "1")
    conf.set("spark.driver.memory", "2g").set("spark.executor.memory", "3g")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    case = options.case
    rows = options.rows // PARTITIONS * PARTITIONS
    rdd = make_rdd(sc, case, rows)
    result = {"case": case, "rows": rows, "bare": [], "cluster": []}
    bare_pass(rdd, rows)
    for _ in range(options.repeat):
        result["bare"].append(bare_pass(rdd, rows))
        result["cluster"].append(measure(sc, rdd, case, rows))
    import tensorflowonspark

    result["package"] = os.path.dirname(tensorflowonspark.__file__)
    result["python"] = sys.version.split()[0]
    print("RESULT " + json.dumps(result), flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
