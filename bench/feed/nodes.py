"""Feeding 1, 2, 4 and 8 nodes: does what a row costs stay the same as the cluster grows?

    python bench/feed/nodes.py [--repeat 5] [--output docs/performance.md]

As many single-core executors as nodes, all on this host, a cached DataFrame (float array of 784, int)
in two partitions for each, fed by the executors' JVMs into `ctx.dataset(128)`. Each repetition is a job
of several epochs, so that its start weighs little. Jobs before that warm up: a JVM compiles what it has
run often, for seconds of CPU time, so each of them is given as many rows, whatever the number of nodes.
CPU time is that of all processes of the machine, so nothing else may run. Rates fall where nodes
outnumber cores; the cost of a row should not grow.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import dataset as single
import report

ROWS = 200_000
EPOCHS = 5
WARM_UP_JOBS_A_NODE = 6
NODES = (1, 2, 4, 8)


def busy_seconds():
    """CPU seconds spent by all processes of this machine since it started."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system = (int(field) for field in fields[:3])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def measure(nodes, repeat):
    """Prints a line for each job: seconds and CPU seconds. In a process of its own, as one process
    has one Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import cloudpickle
    from pyspark.sql import SparkSession

    import tfos

    cloudpickle.register_pickle_by_value(single)  # the nodes have not its folder on their path
    spark = (
        SparkSession.builder.master(f"local-cluster[{nodes},1,1024]")
        .appName("nodes-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", tfos.jar_path())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    data = (
        spark.range(0, ROWS, 1, 2 * nodes)
        .selectExpr(
            "transform(sequence(1, 784), i -> cast(id + i as float)) as features",
            "cast(id as int) as label",
        )
        .cache()
    )
    assert data.count() == ROWS
    with tempfile.TemporaryDirectory() as directory:
        with tfos.run(
            spark,
            single.consume,
            nodes=nodes,
            args=directory,
            progress=False,
        ) as cluster:
            warm_up_jobs = WARM_UP_JOBS_A_NODE * nodes
            for job in range(warm_up_jobs + repeat):
                start, busy = time.time(), busy_seconds()
                cluster.train(data, epochs=EPOCHS)
                for epoch in range(job * EPOCHS, (job + 1) * EPOCHS):
                    last = single.await_epoch(directory, epoch, ROWS)
                if job >= warm_up_jobs:
                    print(f"job {last - start} {busy_seconds() - busy}", flush=True)
    spark.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, options.repeat)
    lines = [
        "| nodes | rate | CPU time of a row | to the median of all | to reach |",
        "|---|---|---|---|---|",
    ]
    costs, rates = {}, {}
    for nodes in NODES:
        out = subprocess.run(
            [sys.executable, __file__, "--measure", str(nodes), "--repeat", str(options.repeat)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        jobs = [line.split()[1:] for line in out.splitlines() if line.startswith("job ")]
        rates[nodes] = ROWS * EPOCHS / statistics.median(float(seconds) for seconds, _ in jobs)
        costs[nodes] = statistics.median(float(cpu) for _, cpu in jobs) / (ROWS * EPOCHS) * 1e6
        print(
            f"{nodes} nodes: {rates[nodes]:,.0f} rows/s, {costs[nodes]:.1f} us of CPU a row",
            flush=True,
        )
    middle = statistics.median(costs.values())
    for nodes in NODES:
        lines.append(
            f"| {nodes} | {rates[nodes]:,.0f} rows/s | {costs[nodes]:.1f} us | "
            f"**{costs[nodes] / middle:.2f}** | 0.8 to 1.2 |"
        )
    report.publish("nodes.py", options.repeat, "Medians.", lines, options.output)


if __name__ == "__main__":
    main()
