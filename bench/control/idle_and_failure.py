"""What a cluster costs while nothing happens, and how soon a failure reaches the driver.

    python bench/control/idle_and_failure.py [--repeat 5] [--idle-seconds 20]

CPU time of the coordinator and of each agent over an idle time in which two nodes wait for rows.
Then the time from an exception in a node to the error in the driver, which waits in `train` or in
`shutdown`.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

import psutil
from pyspark import SparkConf, SparkContext

import tfos
from tfos.errors import NodeFailedError


def wait_for_rows(ctx):
    ctx.feed.next_batch(1)


def fail_on_first_row(ctx):
    ctx.feed.next_batch(1)
    pathlib.Path(ctx.args, f"raised-{ctx.node_id}").write_text(repr(time.time()))
    raise ValueError("on purpose")


def control_processes(cluster_pid):
    """The coordinator, and the agents of this user's tfos."""
    processes = [psutil.Process(cluster_pid)]
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command[-1:] == ["agent"] and os.path.basename(command[0]) == "tfos":
            processes.append(process)
    return processes


def cpu_seconds(process):
    times = process.cpu_times()
    return times.user + times.system


def idle_cpu(sc, seconds):
    """{role: percent of one core}"""
    with tfos.run(sc, wait_for_rows, nodes=2) as cluster:
        coordinator = next(
            p for p in psutil.Process().children() if p.cmdline()[-1:] == ["coordinator"]
        )
        processes = control_processes(coordinator.pid)
        assert len(processes) == 3, processes
        before = [cpu_seconds(process) for process in processes]
        time.sleep(seconds)  # this is the time that is measured
        used = [cpu_seconds(p) - b for p, b in zip(processes, before)]
        cluster.train(sc.parallelize(range(100), 2))
    return {"coordinator": 100 * used[0] / seconds, "agent": 100 * max(used[1:]) / seconds}


def failure_seconds(sc, where):
    with tempfile.TemporaryDirectory() as directory:
        cluster = tfos.run(sc, fail_on_first_row, nodes=2, args=directory)
        rows = sc.parallelize(range(1000), 2)
        try:
            cluster.train(rows, epochs=1000 if where == "train" else 1)
            cluster.shutdown()
        except NodeFailedError:
            heard = time.time()
        raised = min(float(path.read_text()) for path in pathlib.Path(directory).glob("raised-*"))
        with contextlib.suppress(NodeFailedError):  # the same failure once more
            cluster.shutdown()
    return heard - raised


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=20)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("tfos-idle-and-failure")
    conf.set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    for role, percent in idle_cpu(sc, options.idle_seconds).items():
        print(f"idle {role}: {percent:.2f} % of a core")
    for where in ("train", "shutdown"):
        seconds = [failure_seconds(sc, where) for _ in range(options.repeat)]
        print(
            f"exception to the driver waiting in {where}: median "
            f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
        )
    sc.stop()


if __name__ == "__main__":
    main()
